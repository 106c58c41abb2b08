"""What other programs show of a run: TensorBoard's event files, and a run of MLflow's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from coordinator.report.numbers import rounds_of
from coordinator.report.page import settings_of
from coordinator.report.reading import Run
from models.spec import ConfigError

METRICS_PER_BATCH = 1000
"""MLflow takes no more in one request."""

MAX_PARAMETER_LENGTH = 6000
"""MLflow takes no longer text as a parameter."""


class Scalar(NamedTuple):
    """One figure of one round, and when the round was closed in seconds since the epoch, if that is known."""

    tag: str
    round: int
    value: float
    closed_at_s: float | None


def scalars_of(run: Run) -> Iterator[Scalar]:
    """Yield the known figures of all closed rounds, in their order."""
    for told in rounds_of(run):
        round, accuracies = told["round"], told["accuracy"].items()
        found: dict[str, float | None] = {
            **{f"accuracy/{rule}": point["weighted"] for rule, point in accuracies},
            **{f"mean_accuracy/{rule}": point["mean"] for rule, point in accuracies},
            **{f"num_clients/{rule}": point["num_clients"] for rule, point in accuracies},
            "bytes/up": told["uplink"]["encoded_bytes"],
            "bytes/down": told["downlink"]["encoded_bytes"],
            "bytes/so_far": told["sent_bytes"],
            "time/round_s": told["round_s"],
            "time/coordination_s": told["coordination_s"],
            **{f"server/{name}": value for name, value in told["metrics"].items()},
        }
        for tag, value in found.items():
            if value is not None:
                yield Scalar(tag, round, value, run.closed_at_s.get(round))


def to_tensorboard(run: Run) -> str:
    """Write event files into a new `tensorboard` folder of the run, and return where that is.

    Raises:
        ConfigError: TensorBoard is not installed.
    """
    try:
        from tensorboard.summary import Writer
    except ModuleNotFoundError:
        raise ConfigError("needs the package tensorboard: pip install tensorboard") from None
    folder = run.folder.path / "tensorboard"
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    writer = Writer(str(folder))
    for scalar in scalars_of(run):
        writer.add_scalar(scalar.tag, scalar.value, scalar.round, wall_time=scalar.closed_at_s)
    writer.close()
    return str(folder)


def to_mlflow(run: Run) -> str:
    """Log a run of MLflow's, with settings, figures and files, and return its address and id.

    Where it goes is as MLflow itself is told, by MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.

    Raises:
        ConfigError: MLflow is not installed.
    """
    try:
        import mlflow
    except ModuleNotFoundError:
        raise ConfigError("needs the package mlflow: pip install mlflow") from None
    metrics = [
        mlflow.entities.Metric(scalar.tag, scalar.value, int(1000 * (scalar.closed_at_s or 0)), scalar.round)
        for scalar in scalars_of(run)
    ]
    parameters = {name: value[:MAX_PARAMETER_LENGTH] for name, value in settings_of(run).items()}
    with mlflow.start_run(run_name=run.folder.run_id) as started:
        mlflow.log_params(parameters)
        for first in range(0, len(metrics), METRICS_PER_BATCH):
            batch = metrics[first : first + METRICS_PER_BATCH]
            mlflow.MlflowClient().log_batch(started.info.run_id, metrics=batch)
        for path in _files(run):
            mlflow.log_artifact(str(path))
    return f"{started.info.run_id} at {mlflow.get_tracking_uri()}"


def _files(run: Run) -> Sequence[Path]:
    """Return the small files of a run that are there."""
    folder = run.folder
    paths = (folder.config_path, folder.summary_path, folder.histogram_path, folder.page_path, folder.global_path)
    return [path for path in paths if path.exists()]
