"""GFPL on w-way s-shot MNIST beside local training, FedProto and its own ablations, and how long fusion takes.

As in the paper, 20 clients of w - 2 to w + 2 digits (2 at least), 99 or 100 samples of each to train on and 40 to test,
and 80 rounds of one epoch, every tenth of which exchanges mixtures. The samples are in `shared/data` beside the
repository; their official split is lost, so the last 10,000 stand for the test set.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from models import methods
from models.methods.api import Server, Update
from models.methods.gfpl import Mixture, Uplink, flattened
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.mnist_split import SAMPLES
from tests.benchmarks.papers import study
from tests.benchmarks.papers.study import Result, Row

NUM_ROUNDS, INTERVAL = 80, 10
NUM_INTERACTIONS = NUM_ROUNDS // INTERVAL
TEST_FROM = 60_000

SETTINGS = (
    "data.dataset=npz",
    "data.partition=w-way-s-shot",
    "data.num_clients=20",
    "data.ways_half_range=2",
    "data.shots=99",
    "data.shots_half_range=1",
    "data.test_shots=40",
    "model.name=cnn",
    "model.feature_dim=50",
    f"run.num_rounds={NUM_ROUNDS}",
    "training.local_epochs=1",
    "training.batch_size=4",
    "training.lr=0.01",
    "training.momentum=0.5",
    "training.threads=1",
    f"evaluation.every={INTERVAL}",
)
"""FedProto's code draws s - 1 or s shots of MNIST for s = 100 and a half-range of 2."""

LOCAL, FEDPROTO, WHOLE, NO_DCS, NO_PFG = "local", "fedproto", "gfpl", "gfpl w/o DCS", "gfpl w/o PFG"

METHODS = {
    LOCAL: ["method.name=local_only"],
    FEDPROTO: ["method.name=fedproto"],
    WHOLE: ["method.name=gfpl"],
    NO_DCS: ["method.name=gfpl", "method.dual_classifier=false"],
    NO_PFG: ["method.name=gfpl", "method.pseudo_features=false"],
}

PAPER = {
    LOCAL: {3: "94.05", 4: "93.35", 5: "92.92"},
    FEDPROTO: {3: "97.13", 4: "96.80", 5: "96.70"},
    WHOLE: {3: "98.91", 4: "98.01", 5: "97.83"},
}
"""Its Table 1; the ablations were not made on MNIST."""

RULES = ("head", "etf", "head_etf", "own_head", "own_etf", "own_head_etf", "local_prototype", "global_prototype")

FUSIONS = (("20 x 10 x 4, d = 512", 20, 10, 512, 10, 0.05), ("100 x 100 x 4, d = 128", 100, 100, 128, 1, 10.0))
"""Clients x classes x components, how often it is measured, and the most that fusion may take, in seconds."""

MAX_MIB = 1024
NUM_COMPONENTS, SAMPLES_EACH = 4, 25


def run(out: Path, full: bool) -> list[Figure]:
    """Return the accuracies and times of all rows, and what fusion takes.

    Raises:
        Skipped: the samples are not there.
    """
    if not SAMPLES.exists():
        raise Skipped(f"there is no {SAMPLES}")
    fusions = [figure for case in FUSIONS for figure in _fusion(*case)]
    common, results = [*SETTINGS, f"data.root={_with_test_set(out)}"], []
    for ways in (3, 4, 5) if full else (3,):
        rows = [Row(f"{name}, w = {ways}", own, PAPER.get(name, {}).get(ways, "")) for name, own in METHODS.items()]
        made = study.run(rows, (0, 1, 2) if full else (0,), [*common, f"data.ways={ways}"], out)
        _tell(dict(zip(METHODS, made, strict=True)))
        results += made
    return [*study.figures(results), *fusions]


def _with_test_set(out: Path) -> Path:
    """Write the samples with the first row of the test set beside them."""
    made = out / "mnist_test_from.npz"
    if not made.exists():
        with np.load(SAMPLES) as samples:
            np.savez(made, x=samples["x"], y=samples["y"], test_from=TEST_FROM)
    return made


def _tell(results: dict[str, Result]) -> None:
    """Print the accuracy by every rule that can say, what an interaction round sends, and what becomes of the claim."""
    print("best accuracy by rule, %")
    for result in results.values():
        known = result.summaries[0]["accuracy_by_rule"]
        best = {rule: statistics.mean(result.best(rule)) for rule in RULES if rule in known}
        print(f"  {result.row.name}: {', '.join(f'{rule} {mean:.2f}' for rule, mean in best.items() if mean)}")
    for way in ("uplink", "downlink"):
        sent = results[WHOLE].summaries[0][way]
        each, predicted = (sent[name] / NUM_INTERACTIONS for name in ("elements", "predicted_elements"))
        print(f"an interaction round, {way}: {each:,.0f} elements, predicted {predicted:,.0f}")
    ordered = [results[name] for name in (WHOLE, NO_PFG, LOCAL)]
    print(
        f"claim: gfpl above gfpl w/o PFG above local, best: {_verdict([result.best() for result in ordered], ordered)}"
    )
    print(f"claim: the same, last: {_verdict([result.last() for result in ordered], ordered)}", flush=True)


def _verdict(accuracies: Sequence[Sequence[float]], results: Sequence[Result]) -> str:
    """Say whether these accuracies fall from row to row, and by more than one standard error of the tests."""
    num_tests = sum(client["num_test"] for summary in results[0].summaries for client in summary["clients"].values())
    means = [statistics.mean(samples) for samples in accuracies]
    error = 100 * math.sqrt(means[-1] / 100 * (1 - means[-1] / 100) / num_tests)
    gaps = [higher - lower for higher, lower in itertools.pairwise(means)]
    word = "holds" if min(gaps) > error else "does not hold" if min(gaps) < -error else "cannot be told"
    told = " / ".join(f"{mean:.2f}" for mean in means)
    return f"{word} ({told}; {num_tests:,} test samples, standard error {error:.2f})"


def _fusion(
    name: str, num_clients: int, num_classes: int, feature_dim: int, repeats: int, target_s: float
) -> Iterator[Figure]:
    """Yield the time of the server half for one interaction round, and the memory that it takes."""
    updates = _updates(num_clients, num_classes, feature_dim)
    server = _server(num_classes, feature_dim)

    def aggregate() -> None:
        server.aggregate(1, "mixtures", iter(updates))

    yield Figure.of(f"fusion {name}", "s", [_wall_s(aggregate) for _ in range(repeats)], target=target_s)
    tracemalloc.start()
    aggregate()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield Figure.of(f"fusion {name}: memory", "MiB", [peak_bytes / 2**20], target=MAX_MIB)


def _wall_s(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _server(num_classes: int, feature_dim: int) -> Server:
    method = methods.find("gfpl")
    settings = {"first_interaction": 1, "interaction_interval": 1, "projection_dim": num_classes}
    spec = RunSpec(
        run_id="fusion",
        seed=0,
        num_rounds=1,
        method=method.name,
        method_config=settings,
        classes=[str(label) for label in range(num_classes)],
        data=DataConfig(),
        model=ModelConfig(feature_dim=feature_dim),
        training=TrainingConfig(),
        evaluation=EvaluationConfig(),
        wire=WireConfig(),
    )
    return method.make_server(spec, methods.read_config(method, settings))


def _updates(num_clients: int, num_classes: int, feature_dim: int) -> Sequence[Update]:
    """Return uplinks of clients whose classes are alike: components of a few samples each, after ReLU."""
    draw = np.random.default_rng(0)
    centres_CD = draw.normal(size=(num_classes, 1, 1, feature_dim)).astype(np.float32)
    made = []
    for index in range(num_clients):
        shape = (num_classes, NUM_COMPONENTS, SAMPLES_EACH, feature_dim)
        features = np.maximum(centres_CD + draw.standard_normal(shape, np.float32), 0)
        means, deviations = features.mean(axis=2), np.maximum(features.std(axis=2), 1e-3)
        shares = np.full(NUM_COMPONENTS, 1 / NUM_COMPONENTS)
        mixtures = {label: Mixture(shares, means[label], deviations[label]) for label in range(num_classes)}
        counts = np.full(num_classes, NUM_COMPONENTS * SAMPLES_EACH, np.uint32)
        made.append(
            Update(f"{index:03d}", int(counts.sum()), Uplink(**flattened(mixtures, feature_dim), counts=counts))
        )
    return made
