"""How both commands begin where the daemons cannot run."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.settings import read_toml
from wire.exit_codes import ExitCode
from wire.sockets.command import WINDOWS, run_command

WITHOUT = """
import signal, sys
sys.platform = "win32"
for name in ("fcntl", "resource", "select"):
    sys.modules[name] = None
for name in ("SIGUSR1", "SIGUSR2", "SIGKILL", "SIGSTOP", "SIGCONT"):
    delattr(signal, name)
from {package}.cli import main
sys.exit(main(["--version"]))
"""


WHILE_IMPORTING = """
import os, signal, sys, types
cli = types.ModuleType("{package}.cli")
cli.main = lambda: os.kill(os.getpid(), signal.{name})
sys.modules[cli.__name__] = cli
from {package}.__main__ import main
main()
sys.exit("went on")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("package", ["coordinator", "edge_client"])
def test_a_signal_that_comes_before_the_command_is_imported_ends_it_quietly(package: str, name: str) -> None:
    script = WHILE_IMPORTING.format(package=package, name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_the_installed_commands_begin_so() -> None:
    scripts = read_toml(Path(__file__).parents[3] / "pyproject.toml")["project"]["scripts"]
    assert scripts == {"coordinator": "coordinator.__main__:main", "edge-client": "edge_client.__main__:main"}


@pytest.mark.parametrize("package", ["coordinator", "edge_client"])
def test_on_windows_a_command_says_where_it_runs_and_imports_nothing_that_is_not_there(package: str) -> None:
    script = WITHOUT.format(package=package)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.BAD_CONFIG, "", f"{WINDOWS}\n")


def test_elsewhere_it_runs_and_signals_that_are_ignored_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        assert run_command("name", lambda: 4, ignored=["SIGUSR1"]) == 4
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
    assert handlers[signal.SIGUSR1] is signal.SIG_IGN


def test_a_file_that_cannot_be_used_is_a_line_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def read() -> int:
        return len((tmp_path / "closed" / "file").read_bytes())

    (tmp_path / "closed").touch()
    assert run_command("edge-client", read, ignored=["SIGUSR1"]) == ExitCode.BAD_CONFIG
    assert capsys.readouterr().err == f"edge-client: {tmp_path}/closed/file: Not a directory\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_there_is_no_room_for_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def write() -> int:
        raise OSError(number, os.strerror(number), "client.toml")

    assert run_command("edge-client", write) == ExitCode.NO_SPACE
    assert capsys.readouterr().err == f"edge-client: client.toml: {os.strerror(number)}; free some disk space\n"


def test_an_error_of_no_file_is_no_matter_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def fail() -> int:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        run_command("coordinator", fail)


def test_what_does_not_fit_on_the_disk_is_told_in_a_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    program = "import sys; from wire.sockets.command import run_command; sys.exit(run_command('it', {}))"
    for command in ("lambda: print('x' * 100_000)", "lambda: print('x')"):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(
                [sys.executable, "-c", program.format(command)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
        assert ended.stderr == "it: standard output: No space left on device: what was to be written is not whole\n"
        assert ended.returncode == ExitCode.FAILED


PROGRAM = "import sys; from wire.sockets.command import run_command; sys.exit(run_command('it', {command}))"

BUFFERING = pytest.mark.parametrize("options", [[], ["-u"]])


@BUFFERING
def test_that_standard_error_cannot_be_written_changes_no_exit_code(options: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = "lambda: print('told', file=sys.stderr) or 2"
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, *options, "-c", PROGRAM.format(command=command)], stderr=full, timeout=60
        )
    assert ended.returncode == ExitCode.BAD_CONFIG


@BUFFERING
@pytest.mark.parametrize("printed", ["x", "x" * 100_000])
def test_a_reader_that_has_read_enough_is_no_failure(options: list[str], printed: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = f"lambda: print({printed!r}) or 0"
    with os.fdopen(writer, "w") as closed:
        ended = subprocess.run(
            [sys.executable, *options, "-c", PROGRAM.format(command=command)],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (ended.returncode, ended.stderr) == (ExitCode.FINISHED, b"")


def test_a_broken_pipe_that_is_not_its_output_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def fail() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        run_command("coordinator", fail)
