"""`coordinator audit`, from the features that clients left in a run folder."""

import json
from pathlib import Path

import numpy as np
import pytest

from coordinator import cli, config
from coordinator.audit import audit_run, format_audit
from coordinator.store.run_folder import RunFolder
from models.audit import keep_features
from models.spec import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(config.load(None, [f"run.dir={tmp_path}"]), "20260101-000000")


def keep(folder: RunFolder, client: str, round: int, mean: float) -> None:
    features = np.random.default_rng(int(mean)).normal(mean, size=(20, 3)).astype(np.float32)
    kept: dict[str, np.ndarray] = {"features": features, "candidates": features, "labels": np.zeros(20, np.int64)}
    keep_features(folder.client_folder(client), round, kept)


def test_findings_are_by_round(folder: RunFolder) -> None:
    pytest.importorskip("sklearn")
    for round in (4, 10):
        keep(folder, "a", round, 1)
        keep(folder, "b", round, 50)
    findings = audit_run(folder.path)
    assert list(findings) == [4, 10]
    text = format_audit(findings).splitlines()
    assert len(text) == 1 + 2 * 3 + 1
    assert text[1].split() == ["4", "gaussian", "2", "20.0", *["1.000"] * 3, "2.000", "1.000"]


def test_the_command_prints_them(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    keep(folder, "a", 2, 1)
    keep(folder, "b", 2, 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("signal.signal", lambda *_: None)
        assert cli.main(["audit", str(folder.path), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [finding["attack"] for finding in told["2"]] == ["gaussian", "mahalanobis", "cosine"]


def test_a_run_without_features_is_refused(folder: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"with \[privacy\] audit = true writes them"):
        audit_run(folder.path)
