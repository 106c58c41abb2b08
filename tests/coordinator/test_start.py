"""What a run may start from: the state that another one of its kind ended with, whole and unchanged."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator import cli
from coordinator.config import load
from coordinator.metrics.origin import Origin
from coordinator.metrics.tally import Refusals, RoundLine, Status, Traffic, write_line
from coordinator.start import read_start
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import Store
from models import checkpoint
from models.spec import ConfigError, RunSpec
from tests.coordinator.stores import call, figures, unexpected
from wire.encoding import unpack
from wire.exit_codes import ExitCode

CLASSES = ["a", "b", "c"]
STATE: dict[str, np.ndarray] = {"prototypes": np.eye(3, 50, dtype=np.float32), "classes": np.arange(3, dtype=np.uint16)}
EARLIER: dict[str, np.ndarray] = {"prototypes": np.eye(2, 50, dtype=np.float32), "classes": np.array([0, 2], np.uint16)}


def round_line(round: int, state: Mapping[str, np.ndarray], new: list[int], status: Status = "completed") -> str:
    nothing = Traffic()
    told = (round, status, "", checkpoint.state_hash(state), 1.0, 0.1, 2, 0, 0, 2, nothing, nothing, new, nothing)
    return write_line(RoundLine(*told, Refusals())) + "\n"


@pytest.fixture
def other(tmp_path: Path) -> RunFolder:
    """Return the folder of a finished run of two rounds."""
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")
    folder.histogram_path.write_text(json.dumps({"classes": CLASSES, "clients": {}}))
    folder.metrics_path.write_text(round_line(1, EARLIER, [0, 2]) + round_line(2, STATE, [1]))
    folder.write_summary(figures(run_id="fedproto-0"))
    checkpoint.write(folder.global_path, STATE)
    return folder


def spec(*settings: str, classes: list[str] = CLASSES) -> RunSpec:
    return load(None, settings).spec("", classes)


def refusal(folder: RunFolder, wanted: RunSpec | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        read_start(folder.path, wanted or spec())
    text = str(refused.value)
    assert text.startswith(f"--init-from {folder.path}: ")
    assert "\n" not in text
    return text


def test_a_start_is_the_last_state_and_where_it_comes_from(other: RunFolder) -> None:
    start = read_start(other.path, spec())
    assert checkpoint.state_hash(unpack(start.state).arrays) == checkpoint.state_hash(STATE)
    assert start.classes == {0, 1, 2}
    assert start.origin == Origin("fedproto-0", 2, checkpoint.state_hash(STATE), [0, 1, 2])


def test_the_state_of_an_earlier_round_is_taken_as_that(other: RunFolder) -> None:
    """A run that was stopped, went on and was killed leaves the state of its stop."""
    other.summary_path.unlink()
    checkpoint.write(other.global_path, EARLIER)
    start = read_start(other.path, spec())
    assert (start.classes, start.origin.round, start.origin.run_id) == (frozenset({0, 2}), 1, other.run_id)


def test_what_the_other_run_knew_at_its_own_start_is_known(other: RunFolder) -> None:
    other.metrics_path.write_text(round_line(1, STATE, [1]))
    store = Store(other.store_path, call, unexpected)
    store.put_meta("start_classes", "[2]")
    store.close()
    assert read_start(other.path, spec()).classes == {1, 2}


def test_a_round_that_failed_made_no_state(other: RunFolder) -> None:
    other.metrics_path.write_text(round_line(1, STATE, [], "failed"))
    assert "metrics.jsonl: expected a completed round, got none" in refusal(other)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["method.name=local_only"], "expected a run of method local_only, got one of fedproto"),
        (["model.feature_dim=20"], r"expected a run with [model] feature_dim = 20, as this one's, got 50"),
    ],
)
def test_a_run_of_another_kind_is_refused(other: RunFolder, settings: list[str], told: str) -> None:
    assert told in refusal(other, spec(*settings))


def test_another_net_is_refused_where_nets_travel(other: RunFolder) -> None:
    assert read_start(other.path, spec("model.name=mlp")).origin.round == 2
    other.write_config(load(None, ["method.name=fedavg"]))
    told = "expected a run of the net 'mlp', as this one's, because fedavg sends whole nets; got 'cnn'"
    assert told in refusal(other, spec("method.name=fedavg", "model.name=mlp"))


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (["c", "b", "a"], "where class 0 is 'c', got 'a'"),
        (["a", "b"], "expected the 2 classes of this run, got 3"),
    ],
)
def test_another_label_map_is_refused(other: RunFolder, classes: list[str], told: str) -> None:
    text = refusal(other, spec(classes=classes))
    assert f"{other.histogram_path}: expected the" in text
    assert told in text


def _renamed(arrays: dict[str, np.ndarray]) -> None:
    arrays["protos"] = arrays.pop("prototypes")


def _not_finite(arrays: dict[str, np.ndarray]) -> None:
    arrays["prototypes"] = np.full((3, 50), np.nan, np.float32)


def _repeated(arrays: dict[str, np.ndarray]) -> None:
    arrays["classes"] = np.zeros(3, np.uint16)


@pytest.mark.parametrize("spoil", [_renamed, _not_finite, _repeated, dict.clear])
def test_a_state_that_was_changed_is_refused(other: RunFolder, spoil: Callable[[dict[str, np.ndarray]], None]) -> None:
    arrays: dict[str, Any] = dict(STATE)
    spoil(arrays)
    checkpoint.write(other.global_path, arrays)
    ours, theirs = checkpoint.state_hash(STATE)[:12], checkpoint.state_hash(arrays)[:12]
    expected = (
        f"{other.global_path}: expected the state with which round 2 of metrics.jsonl ended, hash {ours}, got hash"
    )
    assert f"{expected} {theirs}" in refusal(other)


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "global.safetensors", "histogram.json", "summary.json", "config.toml"]
)
@pytest.mark.parametrize("content", [b'{"kind":"roun', b"\xff\xfe\x00", b"[]\n"])
def test_a_damaged_file_is_named(other: RunFolder, name: str, content: bytes) -> None:
    (other.path / name).write_bytes(content)
    text = refusal(other)
    assert str(other.path / name) in text
    assert "expected" in text


@pytest.mark.parametrize("name", ["metrics.jsonl", "global.safetensors", "histogram.json", "config.toml"])
def test_a_missing_file_is_named(other: RunFolder, name: str) -> None:
    (other.path / name).unlink()
    assert name in refusal(other)


def test_a_state_of_another_size_ends_a_run_before_it_begins(
    other: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, x=np.zeros((60, 4), np.float32), y=np.arange(60) % 3)
    settings = [
        "method.name=refprotofl",
        "data.dataset=npz",
        f"data.root={data}",
        f"data.classes={json.dumps(CLASSES)}",
    ]
    other.write_config(load(None, settings))
    state = {"adapter": np.zeros(6915, np.float32), "anchors": np.zeros((0, 128), np.float32)}
    state["anchor_classes"] = np.zeros(0, np.uint16)
    checkpoint.write(other.global_path, state)
    other.metrics_path.write_text(round_line(1, state, [0, 1, 2]))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    chosen = [*settings, "method.adapter_dim=10", f"run.dir={tmp_path / 'runs'}"]
    words = [word for setting in chosen for word in ("--set", setting)]
    assert cli.main(["simulate", "--init-from", str(other.path), *words]) == ExitCode.BAD_CONFIG
    told = (
        "its state does not fit this run: field 'adapter': expected A = 543, got 6915 (shape (6915,)); nothing has run"
    )
    assert f"coordinator: --init-from fedproto-0: {told}" in capsys.readouterr().err
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_a_store_the_summary_says_what_the_start_knew(other: RunFolder) -> None:
    other.metrics_path.write_text(round_line(1, STATE, [1]))
    other.write_summary(figures(run_id="fedproto-0", init_from={"run_id": "x", "round": 1, "classes": [2]}))
    for left in (None, b""):
        if left is not None:
            other.store_path.write_bytes(left)
        assert read_start(other.path, spec()).classes == {1, 2}


def test_a_run_that_has_not_ended_in_order_is_told_as_that(other: RunFolder) -> None:
    other.global_path.unlink()
    assert "if it was killed, go on with it and stop it" in refusal(other)


def test_a_run_that_no_client_was_in_has_no_label_map(other: RunFolder) -> None:
    other.histogram_path.unlink()
    assert "histogram.json: expected the label map of the run, got nothing" in refusal(other)
