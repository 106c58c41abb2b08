"""The command `edge-client`, as a process: exit codes, one clear line for an error, and never a traceback."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edge_client import cli
from edge_client.config import load
from edge_client.doctor.finding import Finding
from wire.exit_codes import ExitCode
from wire.version import PROTOCOL_VERSION

PLAIN = "coordinator.security=none"


def edge_client(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge_client", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_bad_config_is_one_line_and_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text("[client]\nidd = 'a'\n")
    done = edge_client("run", "--config", path)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert done.stderr == "edge-client: client.toml [client]: unknown key 'idd'; did you mean 'id'?\n"


@pytest.mark.parametrize("args", [[], ["run"], ["rn"], ["run", "--config", "x", "--lifeline", "three"]])
def test_bad_arguments_are_exit_2(args: list[str]) -> None:
    done = edge_client(*args)
    assert done.returncode == ExitCode.BAD_CONFIG
    assert "edge-client" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_names_package_and_protocol() -> None:
    done = edge_client("--version")
    assert done.returncode == ExitCode.FINISHED
    assert done.stdout.endswith(f", protocol {PROTOCOL_VERSION}\n")


def test_help_shows_what_is_for_people() -> None:
    done = edge_client("run", "--help")
    assert done.returncode == ExitCode.FINISHED
    assert "--once" in done.stdout
    assert "lifeline" not in done.stdout


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_before_the_daemon_is_up_ends_quietly(name: str) -> None:
    script = (
        "import os, signal, sys\nfrom edge_client import cli\n"
        f"cli._parser = lambda: os.kill(os.getpid(), signal.{name})\n"
        "sys.exit(cli.main(['run']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "edge_client", "--version"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == ExitCode.FINISHED


@pytest.mark.parametrize(
    ("args", "once", "lifeline"),
    [([], False, None), (["--once"], True, None), (["--once", "--lifeline", "5"], True, 5)],
)
def test_run_enters_the_app_and_returns_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, args: list[str], once: bool, lifeline: int | None
) -> None:
    calls: list[Any] = []

    def enter(*entered: Any) -> int:
        calls.append(entered)
        return ExitCode.REFUSED

    stand_in = ModuleType("edge_client.app")
    stand_in.__dict__["run"] = enter
    monkeypatch.setitem(sys.modules, "edge_client.app", stand_in)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    path = tmp_path / "client.toml"
    path.write_text('[client]\nid = "a"\n')
    code = cli.main(["run", "--config", str(path), "--set", "data.index=1", "--set", PLAIN, *args])
    assert code == ExitCode.REFUSED
    assert calls == [(load(path, ["data.index=1", PLAIN]), tmp_path, None, once, lifeline)]


@pytest.mark.parametrize(
    ("args", "configured", "address"),
    [
        ([], False, ""),
        (["--coordinator", "server:7071"], False, "server:7071"),
        (["--config", "client.toml"], True, "127.0.0.1:7071"),
        (["--config", "client.toml", "--coordinator", "server:7071"], True, "server:7071"),
    ],
)
def test_the_doctor_looks_at_what_is_known_and_returns_the_worst(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    configured: bool,
    address: str,
) -> None:
    calls: list[tuple[bool, str]] = []

    def examine(config: Any, address: str, allow_open_keys: bool) -> list[Finding]:
        calls.append((config is not None, address))
        return [Finding("enrolment", "not let in", "enroll it", ExitCode.REFUSED)]

    monkeypatch.setattr("edge_client.doctor.examine", examine)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    Path("client.toml").write_text('[client]\nid = "a"\n[data]\nindex = 0\n')
    assert cli.main(["doctor", "--format", "json", *args]) == ExitCode.REFUSED
    assert calls == [(configured, address)]
    assert json.loads(capsys.readouterr().out)["exit_code"] == ExitCode.REFUSED


def test_an_address_that_is_none_is_a_bad_argument() -> None:
    done = edge_client("doctor", "--coordinator", "server")
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert done.stderr.startswith("edge-client: --coordinator server: expected ")


@pytest.mark.parametrize(("plugin_dir", "expected"), [("", "."), ("mine", "mine"), ("/opt/mine", "/opt/mine")])
def test_plugins_are_looked_for_from_the_folder_of_the_config(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plugin_dir: str, expected: str
) -> None:
    folders: list[Path] = []

    def enter(config: Any, folder: Path, *rest: Any) -> int:
        folders.append(folder)
        return ExitCode.FINISHED

    stand_in = ModuleType("edge_client.app")
    stand_in.__dict__["run"] = enter
    monkeypatch.setitem(sys.modules, "edge_client.app", stand_in)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    path = tmp_path / "client.toml"
    path.write_text(f'[client]\nid = "a"\nplugin_dir = "{plugin_dir}"\n[data]\nindex = 0\n')
    cli.main(["run", "--config", str(path), "--set", PLAIN])
    assert folders == [tmp_path / expected]
