"""A device's keys: made once, read strictly, never shown."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from pathlib import Path

import pytest

from edge_client import cli
from edge_client.config import ClientConfig, load
from edge_client.keys import Keys, load_keys
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.keys import make_pair, read_secret

SERVER = "5f" * 32
CONFIG = '[client]\nid = "dev"\n[data]\nindex = 0\n'


def config(*settings: str) -> ClientConfig:
    return load(None, ["client.id=dev", "data.index=0", *settings])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_init_prints_the_command_that_enrolls_and_keeps_keys_that_are_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("client.toml").write_text(CONFIG)
    for _ in range(2):
        assert cli.main(["keys", "init", "--config", "client.toml"]) == ExitCode.FINISHED
    pair = read_secret(Path("client-state/dev/client.secret"))
    assert capsys.readouterr().out == f"coordinator keys enroll dev {pair.public}\n" * 2


def test_on_a_full_disk_init_says_what_to_do_and_can_be_given_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("client.toml").write_text(CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert cli.main(["keys", "init", "--config", "client.toml"]) == ExitCode.NO_SPACE
    told = "expected to make a key file, got No space left on device; free some disk space"
    assert capsys.readouterr().err == f"edge-client: client-state/dev/client.secret: {told}\n"
    assert cli.main(["keys", "init", "--config", "client.toml"]) == ExitCode.FINISHED


def test_the_keys_are_read_from_the_clients_folder_or_the_file_that_is_named() -> None:
    cli.main(["keys", "init", "--config", _written(CONFIG)])
    own = read_secret(Path("client-state/dev/client.secret"))
    with_server = f"coordinator.public_key={SERVER}"
    assert load_keys(config(with_server), False, False) == Keys(own, SERVER)
    os.rename("client-state/dev/client.secret", "elsewhere")
    assert load_keys(config(with_server, "client.key=elsewhere"), False, False) == Keys(own, SERVER)


def test_what_is_missing_is_named_with_the_command_that_makes_it() -> None:
    with pytest.raises(ConfigError, match=r"public_key is missing: .*`coordinator keys init` prints"):
        load_keys(config(), False, False)
    with pytest.raises(ConfigError, match=r"client\.secret: expected this device's key, which `edge-client keys init`"):
        load_keys(config(f"coordinator.public_key={SERVER}"), False, False)


def test_a_secret_file_that_others_may_read_is_refused_unless_that_is_allowed() -> None:
    cli.main(["keys", "init", "--config", _written(CONFIG)])
    os.chmod("client-state/dev/client.secret", 0o640)
    settings = config(f"coordinator.public_key={SERVER}")
    with pytest.raises(ConfigError, match="got mode 640; chmod 600 "):
        load_keys(settings, False, False)
    assert load_keys(settings, True, False) is not None
    assert cli.main(["keys", "init", "--config", "client.toml"]) == ExitCode.BAD_CONFIG
    assert cli.main(["keys", "init", "--config", "client.toml", "--allow-open-keys"]) == ExitCode.FINISHED


def test_a_secret_key_may_come_through_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair()
    settings = config(f"coordinator.public_key={SERVER}")
    monkeypatch.setattr(sys, "stdin", io.StringIO(pair.secret))
    assert load_keys(settings, False, True) == Keys(pair, SERVER)
    monkeypatch.setattr(sys, "stdin", io.StringIO("pass word"))
    with pytest.raises(ConfigError, match="standard input: expected a secret key") as refused:
        load_keys(settings, False, True)
    assert "pass word" not in str(refused.value)


def test_without_encryption_no_keys_are_needed_but_a_loopback_address() -> None:
    assert load_keys(config("coordinator.security=none"), False, False) is None
    with pytest.raises(ConfigError, match="security = 'none' sends everything unencrypted"):
        config("coordinator.security=none", "coordinator.address=server:7071")


def _written(content: str) -> str:
    Path("client.toml").write_text(content)
    return "client.toml"
