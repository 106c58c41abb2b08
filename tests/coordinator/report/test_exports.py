"""Exports to TensorBoard and MLflow."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from coordinator.report import command
from coordinator.report.exports import Scalar, scalars_of, to_mlflow, to_tensorboard
from coordinator.report.reading import Run
from models.spec import ConfigError


class Recorder:
    """Stands in for a package: takes down what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.calls.append((name, args or kwargs))

    def arguments(self, name: str) -> list[Any]:
        return [arguments for called, arguments in self.calls if called == name]


def test_scalars_are_the_known_figures_of_each_round(run: Run) -> None:
    scalars = list(scalars_of(run))
    assert Scalar("accuracy/head", 1, 0.8, run.closed_at_s[1]) in scalars
    assert {scalar.round for scalar in scalars if scalar.tag == "accuracy/anchor"} == {1}
    assert Scalar("num_clients/local_prototype", 1, 1, run.closed_at_s[1]) in scalars
    (so_far,) = [scalar.value for scalar in scalars if (scalar.tag, scalar.round) == ("bytes/so_far", 2)]
    assert so_far == run.series.sent_bytes[2]
    assert {scalar.value for scalar in scalars if scalar.tag == "server/loss"} == {0.5}


def test_tensorboard_gets_every_scalar(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, module = Recorder(), ModuleType("tensorboard.summary")
    module.Writer = lambda folder: writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", module)
    assert to_tensorboard(run) == str(run.folder.path / "tensorboard")
    written = [scalar[:3] for scalar in writer.arguments("add_scalar")]
    assert written == [(scalar.tag, scalar.value, scalar.round) for scalar in scalars_of(run)]
    assert writer.calls[-1][0] == "close"


@pytest.mark.slow
def test_event_files_hold_the_figures(run: Run) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    to_tensorboard(run)
    events = EventAccumulator(to_tensorboard(run))
    events.Reload()
    assert set(events.Tags()["tensors"]) == {scalar.tag for scalar in scalars_of(run)}
    assert [event.step for event in events.Tensors("accuracy/head")] == [1, 2]


def test_mlflow_gets_settings_figures_and_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Recorder()
    module: Any = ModuleType("mlflow")

    class Started:
        info = SimpleNamespace(run_id="1234")

        def __enter__(self) -> Started:
            return self

        def __exit__(self, *error: object) -> None:
            client.calls.append(("end", error))

    module.start_run = lambda run_name: Started()
    module.entities = SimpleNamespace(Metric=lambda *figures: figures)
    module.MlflowClient = lambda: client
    module.log_params, module.log_artifact = client.log_params, client.log_artifact
    module.get_tracking_uri = lambda: "file:mlruns"
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setattr("coordinator.report.exports.METRICS_PER_BATCH", 5)
    assert to_mlflow(run) == "1234 at file:mlruns"
    ((settings,),) = client.arguments("log_params")
    assert settings["training.lr"] == "0.05"
    assert len(client.arguments("log_batch")) == -(-len(list(scalars_of(run))) // 5)
    assert {Path(path).name for (path,) in client.arguments("log_artifact")} >= {"config.toml", "summary.json"}
    assert client.calls[-1] == ("end", (None, None, None))


@pytest.mark.parametrize("form", ["tensorboard", "mlflow"])
def test_a_package_that_is_not_there_is_named(run: Run, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, form, None)
    monkeypatch.setitem(sys.modules, f"{form}.summary", None)
    assert list(command.leave_behind(run.folder, [form])) == [f"{form}: needs the package {form}: pip install {form}"]
    with pytest.raises(ConfigError, match=f"needs the package {form}"):
        command.report([run.folder.path], form, None)
