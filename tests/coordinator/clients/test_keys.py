"""The coordinator's keys, and the commands that keep them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.clients.enrolment import expires_at
from coordinator.clients.keys import listing, load_keys, throw_away_keys
from coordinator.config import TransportSection
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.keys import is_key

A, B = "a" * 64, "b" * 64
CLIENTS = Path("coordinator-keys/clients.toml")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def keys(capsys: pytest.CaptureFixture[str], *arguments: str, code: ExitCode = ExitCode.FINISHED) -> str:
    """Run `coordinator keys` and return what it printed, which has no traceback."""
    assert cli.main(["keys", *arguments]) == code
    printed = capsys.readouterr()
    return printed.out if code == ExitCode.FINISHED else printed.err


def test_init_prints_what_a_client_must_know_and_keeps_keys_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    first = keys(capsys, "init")
    loaded = load_keys(TransportSection(), allow_open=False)
    assert loaded is not None
    assert first == f'[coordinator]\npublic_key = "{loaded.own.public}"\n'
    assert keys(capsys, "init") == first
    assert loaded.own.secret not in first


def test_the_folder_is_that_of_the_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys(capsys, "init", "--set", "transport.keys=elsewhere")
    assert (tmp_path / "elsewhere" / "coordinator.secret").is_file()


def test_clients_are_enrolled_listed_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    keys(capsys, "init")
    assert keys(capsys, "list") == "nobody is enrolled\n"
    assert keys(capsys, "enroll", "client-00", A) == "client-00 is enrolled\n"
    assert keys(capsys, "enroll", "b", B, "--expires", "2101-01-31") == "b is enrolled until 2101-01-31\n"
    assert keys(capsys, "list") == f"client-00  {A}  enrolled\nb          {B}  enrolled until 2101-01-31\n"
    assert listing(Path("coordinator-keys"), expires_at("2101-01-31")).endswith("  expired 2101-01-31")
    assert keys(capsys, "revoke", "b") == "b is revoked\n"
    assert keys(capsys, "list").splitlines()[1] == f"b          {B}  revoked"
    assert keys(capsys, "enroll", "b", "c" * 64) == "b is enrolled with a new key\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["enroll", "b", "xyz"], "clients.toml [b]: public_key = 'xyz': expected 64 hexadecimal characters"),
        (["enroll", "b", "0" * 64], "expected 64 hexadecimal characters, in lower case and not all of them 0"),
        (["enroll", "a/b", B], "clients.toml [a/b]: expected a client id of 1 to 64"),
        (["enroll", "b", A], "expected a key that nobody has, got that of client-00"),
        (["enroll", "b", B, "--expires", "soon"], "expires = 'soon': expected a day such as 2027-01-31"),
        (["enroll", "b", B, "--expires", "2001-01-31"], "--expires 2001-01-31: expected a day or time to come"),
        (["revoke", "cliont-00"], "unknown client 'cliont-00'; did you mean 'client-00'?"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    keys(capsys, "init")
    keys(capsys, "enroll", "client-00", A)
    line = keys(capsys, *arguments, code=ExitCode.BAD_CONFIG)
    assert message in line
    assert line.startswith("coordinator: ")
    assert line.count("\n") == 1


def test_on_a_full_disk_a_command_says_what_to_do_and_can_be_given_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def full(*arguments: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            return keys(capsys, *arguments, code=ExitCode.NO_SPACE)

    why = "No space left on device; free some disk space\n"
    assert full("init") == f"coordinator: {CLIENTS}: expected to write the enrolment list, got {why}"
    CLIENTS.touch(0o644)
    secret = CLIENTS.with_name("coordinator.secret")
    assert full("init") == f"coordinator: {secret}: expected to make a key file, got {why}"
    keys(capsys, "init")
    for arguments in (["enroll", "client-00", A], ["revoke", "client-00"]):
        assert full(*arguments).endswith(f"the enrolment list, got {why}")
        keys(capsys, *arguments)


@pytest.mark.parametrize("arguments", [["enroll", "client-09", B], ["revoke", "client-00"], ["list"], ["init"]])
def test_a_list_that_is_gone_is_never_begun_anew_by_itself(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    keys(capsys, "init")
    keys(capsys, "enroll", "client-00", A)
    CLIENTS.unlink()
    line = keys(capsys, *arguments, code=ExitCode.BAD_CONFIG)
    assert "clients.toml: expected the enrolment list, which is gone; put it back from a backup, or" in line
    assert line.count("\n") == 1
    assert not CLIENTS.exists()
    with pytest.raises(ConfigError, match="which is gone"):
        load_keys(TransportSection(), allow_open=False)
    CLIENTS.touch(0o644)
    assert keys(capsys, "enroll", "client-09", B) == "client-09 is enrolled\n"


@pytest.mark.parametrize("arguments", [["enroll", "client-09", B], ["revoke", "client-00"], ["list"]])
def test_a_folder_without_keys_is_not_the_coordinators(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    line = keys(capsys, *arguments, code=ExitCode.BAD_CONFIG)
    assert f"there are none in {tmp_path / 'coordinator-keys'}; start the command where they are" in line
    assert not list(tmp_path.iterdir())


def test_a_secret_key_that_is_gone_is_made_anew_and_the_list_stays(capsys: pytest.CaptureFixture[str]) -> None:
    first = keys(capsys, "init")
    keys(capsys, "enroll", "client-00", A)
    Path("coordinator-keys/coordinator.secret").unlink()
    told = keys(capsys, "init")
    assert told.startswith("# a new key, as the one before is gone: every client that was enrolled before needs it\n")
    assert first not in told
    assert keys(capsys, "init") in told
    assert keys(capsys, "list") == f"client-00  {A}  enrolled\n"


def test_no_keys_are_made_in_a_folder_that_others_may_write(capsys: pytest.CaptureFixture[str]) -> None:
    CLIENTS.parent.mkdir()
    CLIENTS.parent.chmod(0o775)
    assert cli.main(["keys", "init"]) == ExitCode.BAD_CONFIG
    assert "a folder that its owner alone may write in, got mode 775" in capsys.readouterr().err
    assert not Path("coordinator-keys/coordinator.secret").exists()


@pytest.mark.parametrize("path", [CLIENTS, CLIENTS.parent])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_a_list_that_others_may_write_is_refused_unless_that_is_allowed(
    capsys: pytest.CaptureFixture[str], path: Path, bits: int
) -> None:
    keys(capsys, "init")
    mode = stat.S_IMODE(path.stat().st_mode) | bits
    os.chmod(path, mode)
    told = f"its owner alone may write.*, got mode {mode:o}; chmod go-w {path}, or allow it with --allow-open-keys"
    with pytest.raises(ConfigError, match=told):
        load_keys(TransportSection(), allow_open=False)
    assert re.search(told, keys(capsys, "enroll", "client-00", A, code=ExitCode.BAD_CONFIG))
    assert load_keys(TransportSection(), allow_open=True) is not None
    assert keys(capsys, "enroll", "client-00", A, "--allow-open-keys") == "client-00 is enrolled\n"


def test_what_is_made_is_its_owners_alone_to_write_whatever_the_umask(capsys: pytest.CaptureFixture[str]) -> None:
    mask = os.umask(0)
    try:
        keys(capsys, "init")
        keys(capsys, "enroll", "client-00", A)
    finally:
        os.umask(mask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (CLIENTS, CLIENTS.parent)] == [0o644, 0o755]


def test_without_keys_the_command_that_makes_them_is_named() -> None:
    with pytest.raises(ConfigError, match=r"\[transport\] keys = 'coordinator-keys': .*`coordinator keys init` makes"):
        load_keys(TransportSection(), allow_open=False)


def test_without_encryption_no_keys_are_needed() -> None:
    assert load_keys(TransportSection(security="none"), allow_open=False) is None


def test_a_secret_file_that_others_may_read_is_refused_unless_that_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys(capsys, "init")
    os.chmod("coordinator-keys/coordinator.secret", 0o644)
    with pytest.raises(ConfigError, match="got mode 644; chmod 600 "):
        load_keys(TransportSection(), allow_open=False)
    assert load_keys(TransportSection(), allow_open=True) is not None


def test_throw_away_keys_are_different_each_time_and_fit_each_other() -> None:
    first, second = throw_away_keys(["a", "b"]), throw_away_keys(["a", "b"])
    pairs = [first.coordinator.own, *first.clients.values(), second.coordinator.own, *second.clients.values()]
    assert len({pair.secret for pair in pairs}) == 6
    assert all(is_key(pair.public) for pair in pairs)
    assert first.coordinator.enrolment.judge(first.clients["b"].public).client == "b"
    assert first.coordinator.enrolment.judge(second.clients["b"].public).client == ""


def test_init_leaves_nothing_in_a_folder_that_others_may_write_in(capsys: pytest.CaptureFixture[str]) -> None:
    CLIENTS.parent.mkdir()
    CLIENTS.parent.chmod(0o777)
    told = keys(capsys, "init", code=ExitCode.BAD_CONFIG)
    assert "expected a folder that its owner alone may write in, got mode 777" in told
    assert list(CLIENTS.parent.iterdir()) == []


@contextlib.contextmanager
def changing() -> Iterator[int]:
    """What a command that changes the list has locked."""
    folder = os.open(CLIENTS.parent, os.O_RDONLY)
    yield folder
    os.close(folder)


def test_commands_at_the_same_time_lose_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    keys(capsys, "init")
    with changing() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that all have begun before any goes on
        enrol = [sys.executable, "-m", "coordinator", "keys", "enroll"]
        commands = [subprocess.Popen([*enrol, f"c{number}", f"{number + 1:064x}"]) for number in range(4)]
        with pytest.raises(subprocess.TimeoutExpired):
            commands[0].wait(1.0)
    assert [command.wait(20.0) for command in commands] == [ExitCode.FINISHED] * 4
    assert {line.split()[0] for line in keys(capsys, "list").splitlines()} == {"c0", "c1", "c2", "c3"}


def test_a_command_does_not_wait_for_ever_for_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(capsys, "init")
    monkeypatch.setattr("coordinator.clients.keys.LOCK_WAIT_S", 0.05)
    with changing() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = keys(capsys, "enroll", "client-00", A, code=ExitCode.BAD_CONFIG)
    assert "clients.toml: another command has been changing the list for 0.05 s; end it and try again" in told
    assert keys(capsys, "enroll", "client-00", A) == "client-00 is enrolled\n"
