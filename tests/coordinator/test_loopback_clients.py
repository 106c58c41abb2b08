"""The clients that loopback starts: how each gets its keys, which no file ever holds."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coordinator.clients.keys import ThrowAwayKeys, throw_away_keys
from coordinator.config import load
from coordinator.loopback_clients import Clients, client_names
from coordinator.store.run_folder import RunFolder
from edge_client import config as client_config
from models.spec import ConfigError, NoSpaceError
from wire.exit_codes import ExitCode


class Started:
    """In the place of a process: how it was started, and what came by its standard input."""

    def __init__(self, command: list[str], **how: Any) -> None:
        self.command = command
        self.how = how
        self.told = b""
        self.stdin = io.BytesIO()
        self.stdin.close = self._close  # type: ignore[method-assign]

    def wait(self, timeout: float) -> int:
        return 0

    def _close(self) -> None:
        self.told = self.stdin.getvalue()


def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: ThrowAwayKeys | None, *settings: str
) -> tuple[RunFolder, list[Started]]:
    started: list[Started] = []

    def popen(command: list[str], **how: Any) -> Started:
        started.append(Started(command, **how))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    config = load(None, [f"run.dir={tmp_path}", "data.num_clients=3", *settings])
    folder = RunFolder.create(config, "20261128-000000")
    clients = Clients(config, tmp_path, folder, keys)
    clients.start("127.0.0.1:7071")
    clients.stop()
    return folder, started


def test_each_client_is_given_its_own_secret_key_and_nobody_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = throw_away_keys(client_names(3))
    folder, started = start(tmp_path, monkeypatch, keys)
    assert [process.told.decode() for process in started] == [keys.clients[name].secret for name in client_names(3)]
    written = b"".join(path.read_bytes() for path in folder.path.rglob("*") if path.is_file())
    shown = repr([(process.command, process.how) for process in started])
    for secret in (keys.coordinator.own.secret, *(pair.secret for pair in keys.clients.values())):
        assert secret.encode() not in written
        assert secret not in shown
    for process in started:
        config = client_config.load(Path(process.command[process.command.index("--config") + 1]), [])
        assert config.coordinator.public_key == keys.coordinator.own.public
        assert "--key-from-stdin" in process.command


def test_without_encryption_there_are_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, started = start(tmp_path, monkeypatch, None)
    assert {process.told for process in started} == {b""}
    for process in started:
        config = client_config.load(Path(process.command[process.command.index("--config") + 1]), [])
        assert config.coordinator.security == "none"
        assert "--key-from-stdin" not in process.command


@pytest.mark.parametrize(
    ("settings", "paths", "downloads"),
    [
        ([], ["."], False),
        (
            ["data.root=mnist", "data.download=true", "model.weights=vit.safetensors"],
            ["mnist", "vit.safetensors"],
            True,
        ),
        (["data.indices=rows.npz", "model.path=net.onnx"], [".", "rows.npz", "net.onnx"], False),
    ],
)
def test_the_clients_may_read_and_fetch_what_the_run_names_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], paths: list[str], downloads: bool
) -> None:
    _, started = start(tmp_path, monkeypatch, None, *settings)
    for process in started:
        client = client_config.load(Path(process.command[process.command.index("--config") + 1]), []).client
        assert (client.paths, client.downloads) == (paths, downloads)


@pytest.mark.parametrize(
    ("code", "end"),
    [(2, ExitCode.BAD_CONFIG), (3, ExitCode.REFUSED), (5, ExitCode.FAILED), (6, ExitCode.INTERRUPTED)],
)
def test_a_run_ends_as_the_client_that_gives_up_and_can_go_on_where_that_lacked_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, end: ExitCode
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(Started, "poll", lambda process: code, raising=False)
    config = load(None, [f"run.dir={tmp_path}", "data.num_clients=1"])
    clients = Clients(config, tmp_path, RunFolder.create(config, "20261128-000000"), None)
    clients.start("127.0.0.1:7071")
    assert clients.check([]) == (end, f"client-00 exited with {code}: it said nothing")
    clients.stop()


@pytest.mark.parametrize(("said", "told"), [(b"", "it said nothing"), (b"no such net\n\n", "no such net")])
def test_a_client_that_gives_up_is_quoted_from_its_own_start_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, told: str
) -> None:
    class Ended(Started):
        def __init__(self, command: list[str], **how: Any) -> None:
            super().__init__(command, **how)
            how["stdout"].write(said)

        def poll(self) -> int:
            return ExitCode.FAILED

    monkeypatch.setattr(subprocess, "Popen", Ended)
    config = load(None, [f"run.dir={tmp_path}", "data.num_clients=1"])
    folder = RunFolder.create(config, "20261128-000000")
    (folder.client_folder("client-00") / "log.txt").write_text("yesterday's error\n")
    clients = Clients(config, tmp_path, folder, None)
    clients.start("127.0.0.1:7071")
    assert clients.check([]) == (ExitCode.FAILED, f"client-00 exited with 4: {told}")
    clients.stop()


def test_a_run_goes_on_without_a_client_that_it_has_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Started)
    config = load(None, [f"run.dir={tmp_path}", "data.num_clients=2"])
    clients = Clients(config, tmp_path, RunFolder.create(config, "20261128-000000"), None)
    clients.start("127.0.0.1:7071")
    monkeypatch.setattr(
        Started,
        "poll",
        lambda process: ExitCode.REFUSED if "client-01" in repr(process.command) else None,
        raising=False,
    )
    assert clients.check(["client-01"]) is None
    told = clients.check(["client-00"])
    assert told is not None
    assert told[0] == ExitCode.REFUSED
    assert told[1].startswith("client-01 exited with 3")
    clients.stop()


def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> None:
    """Let clients' samples be drawn, each time with the next of these exit codes."""

    def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, codes.pop(0), stderr="no such part\n")

    monkeypatch.setattr(subprocess, "run", run)
    config = load(None, [f"run.dir={tmp_path}"])
    Clients(config, tmp_path, RunFolder.create(config, "20261128-000000"), None).draw()


def test_a_process_that_was_killed_as_it_drew_the_samples_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [-9, -15, 0]
    draw(tmp_path, monkeypatch, codes)
    assert not codes


@pytest.mark.parametrize(
    ("codes", "told"),
    [([-9] * 4, "was killed 4 times, the last by SIGKILL; if nobody did that, memory is short"), ([2], "no such part")],
)
def test_why_samples_cannot_be_drawn_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        draw(tmp_path, monkeypatch, codes)
    assert not codes


def test_that_there_is_no_room_for_the_samples_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoSpaceError, match="no such part"):
        draw(tmp_path, monkeypatch, [ExitCode.NO_SPACE])
