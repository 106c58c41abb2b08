"""MNIST on a published split over 20 clients: accuracy of local training, and what FedProto exchanges.

The split is Dirichlet 0.1, 75 to 25 inside each client; the files are in a folder `shared/data` beside the repository.
"""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure, Skipped

DATA = Path(__file__).parents[3] / "shared" / "data"
SAMPLES, INDICES = DATA / "mnist.npz", DATA / "mnist_dir0.1_20clients.npz"

NUM_CLIENTS = 20
NUM_CLASSES = 10
NUM_CLASSES_HELD = 93
"""The classes that the clients hold, summed over all of them."""

ACCURACIES = (("fedpa-cnn", 32, 0.95), ("cnn", 32, None))
"""Net, feature dimension, and the least that its heads must reach."""

FEATURE_DIM = 500
"""Of FedProto's run."""

SETTINGS = (
    "data.dataset=npz",
    f"data.root={SAMPLES}",
    "data.partition=indices",
    f"data.indices={INDICES}",
    f"data.num_clients={NUM_CLIENTS}",
    "training.lr=0.01",
    "training.momentum=0",
    "training.batch_size=32",
    "training.local_epochs=1",
)


def run(out: Path) -> list[Figure]:
    """Return accuracies and times of local training, and FedProto's elements in a full round.

    Raises:
        Skipped: the files are not there.
    """
    for path in (SAMPLES, INDICES):
        if not path.exists():
            raise Skipped(f"there is no {path.name} in {DATA}")
    local = [figure for net in ACCURACIES for figure in _local_training(out, *net)]
    return [*local, *_elements(out)]


def _local_training(out: Path, net: str, feature_dim: int, target: float | None) -> list[Figure]:
    settings = ["method.name=local_only", "run.num_rounds=3", f"model.name={net}", f"model.feature_dim={feature_dim}"]
    done = job.run([*SETTINGS, *settings], out, command="simulate")
    accuracy = done.summary["accuracy_by_rule"]["head"]["last"]
    return [
        Figure.of(f"{net}: head after 3 epochs", "share", [accuracy], target=target, at_least=True),
        Figure.of(f"{net}: wall time", "s", [done.wall_s]),
    ]


def _elements(out: Path) -> list[Figure]:
    """Return the elements of the round after every class has become known, which must be exactly those expected."""
    settings = ["method.name=fedproto", "run.num_rounds=2", "model.name=fedpa-cnn", f"model.feature_dim={FEATURE_DIM}"]
    last = job.run([*SETTINGS, *settings], out, command="simulate").rounds[-1]
    came = {"up": last["up"]["elements"], "down": last["down"]["elements"]}
    expected = {"up": NUM_CLASSES_HELD * FEATURE_DIM, "down": NUM_CLIENTS * NUM_CLASSES * FEATURE_DIM}
    if came != expected:
        raise job.JobError(f"elements of a full round of fedproto: expected {expected}, got {came}")
    both = Figure.of("fedproto: both ways in a full round", "elements", [sum(came.values())])
    return [*(Figure.of(f"fedproto: {way}", "elements", [count]) for way, count in came.items()), both]
