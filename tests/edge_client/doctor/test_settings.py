"""What is said of a client's keys, samples and what it computes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_client.config import load
from edge_client.doctor import settings
from edge_client.doctor.finding import Finding
from edge_client.keys import Keys
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.keys import make_pair


def examined(*changes: str, keys: Keys | ConfigError | None = None) -> dict[str, Finding]:
    config = load(None, ["client.id=a", "data.index=3", "coordinator.security=none", *changes])
    return {finding.name: finding for finding in settings.examine_settings(config, keys)}


def test_what_is_well_is_named() -> None:
    own = make_pair()
    findings = examined(keys=Keys(own, "5f" * 32))
    assert [finding.level for finding in findings.values()] == ["ok"] * 3
    assert own.public in findings["keys"].told
    assert own.secret not in findings["keys"].told
    assert findings["data"].told == "part 3 of the run's own"


def test_keys_that_cannot_be_used_say_what_their_loading_said() -> None:
    keys = examined(keys=ConfigError("client.secret: got mode 640; chmod 600 it"))["keys"]
    assert (keys.code, keys.advice) == (ExitCode.BAD_CONFIG, "client.secret: got mode 640; chmod 600 it")


def test_samples_that_are_not_there_fail(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    changes = ("data.source=npz", f"data.root={path}")
    data = examined(*changes)["data"]
    assert (data.code, data.told) == (ExitCode.BAD_CONFIG, f"{path} does not exist")
    path.touch()
    assert examined(*changes)["data"] == Finding("data", f"npz: {path}")


def test_samples_that_may_not_be_looked_at_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    data = examined("data.source=folder", f"data.root={tmp_path}")["data"]
    assert (data.code, data.told) == (ExitCode.BAD_CONFIG, f"{tmp_path} may not be read (Permission denied)")
    assert "to read" in data.advice


def test_a_gpu_that_is_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    assert examined("training.device=cuda")["device"].code == ExitCode.BAD_CONFIG
    assert examined("training.device=cpu")["device"] == Finding("device", "cpu")


def test_a_backbone_that_cannot_be_loaded_fails(tmp_path: Path) -> None:
    backbone = examined(f"model.path={tmp_path / 'net.onnx'}")["backbone"]
    assert (backbone.code, backbone.told) == (ExitCode.BAD_CONFIG, "cannot be used")
    assert backbone.advice.startswith("[model] path: ")


@pytest.mark.parametrize(("hook", "level"), [("true --idle", "ok"), ("no-such-command --idle", "FAIL")])
def test_a_hook_must_be_a_command(hook: str, level: str) -> None:
    assert examined(f"schedule.hook={hook}")["hook"].level == level
