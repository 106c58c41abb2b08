"""TinyProto beside FedProto and FedTGP: what travels, in which encoding, and what CPS and APS each do to accuracy.

Two federations of 20 clients: scikit-learn's digits, Dirichlet 0.1; and 6,000 images of MNIST, a published split by
Dirichlet 0.1 that is thinned evenly (`--full`: all of it). The paper's accuracies are for CIFAR-10, 300 rounds and four
nets at once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from models import methods
from models.methods.api import Update
from models.methods.fedtgp import Config, Uplink
from models.methods.tinyproto.cps import draw_masks
from models.spec import ModelConfig
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.mnist_split import INDICES, SAMPLES
from tests.benchmarks.papers import study
from tests.integration.processes import booked
from tests.models.small_run import make_spec

SEEDS = (0, 1, 2)
SUBSET_SIZE = 6000
BYTES_BESIDE = 80
"""What a message may hold beside 1.05 times the bytes of its elements."""

COMMON = (
    "data.num_clients=20",
    "model.name=cnn",
    "model.feature_dim=500",
    "run.num_rounds=50",
    "evaluation.every=5",
    "training.lr=0.01",
    "training.momentum=0",
    "training.local_epochs=1",
)
DIGITS = ("data.dataset=digits", "data.partition=dirichlet", "data.alpha=0.1")

FEDPROTO = study.Row(
    "fedproto", ("method.name=fedproto", "method.weighting=uniform", "method.regularizer_weight=10"), "86.02"
)
FEDTGP = study.Row("fedtgp", ("method.name=fedtgp",), "87.62")
PARTS = {"none": (False, False), "CPS": (True, False), "APS": (False, True), "both": (True, True)}
PAPER = {
    "fp, none": "86.02", "fp, both": "86.20",
    "ft, none": "87.62", "ft, CPS": "87.68", "ft, APS": "88.69", "ft, both": "89.06",
}  # fmt: skip
SMALL = ("f16", "bf16", "i8")


def run(out: Path, full: bool) -> list[Figure]:
    """Return how long masks and trained prototypes take, and the accuracies on both data sets."""
    figures = [*_mask_figures(), *_server_figures()]
    federations: dict[str, Sequence[str]] = {"digits": DIGITS}
    if SAMPLES.exists() and INDICES.exists():
        federations["mnist"] = _mnist(out, full)
    for name, data in federations.items():
        print(f"\n{name}", flush=True)
        folder = out / name
        folder.mkdir(exist_ok=True)
        figures += [replace(figure, name=f"{name}, {figure.name}") for figure in _study((*COMMON, *data), folder)]
    return figures


def _mnist(out: Path, full: bool) -> tuple[str, ...]:
    """Return the settings of MNIST on the published split, of which every client keeps the same share."""
    indices = INDICES
    if not full:
        with np.load(INDICES) as parts:
            thinned = thin(dict(parts), SUBSET_SIZE)
        indices = out / "mnist_subset.npz"
        np.savez(indices, **thinned)  # type: ignore[arg-type]
    return ("data.dataset=npz", f"data.root={SAMPLES}", "data.partition=indices", f"data.indices={indices}")


def thin(parts: Mapping[str, np.ndarray], num_kept: int) -> dict[str, np.ndarray]:
    """Return so many rows in all, evenly spaced over the parts laid end to end."""
    ends = np.cumsum([len(rows) for rows in parts.values()])
    kept = np.arange(num_kept) * ends[-1] // num_kept
    starts = ends - [len(rows) for rows in parts.values()]
    bounds = zip(parts.items(), starts, ends, strict=True)
    return {name: rows[kept[(kept >= start) & (kept < end)] - start] for (name, rows), start, end in bounds}


def _study(common: Sequence[str], out: Path) -> list[Figure]:
    """Run all rows with all seeds, and one in all encodings with one seed; print the tables and what is claimed."""
    ablations = [_ablation(base, part) for base in ("fp", "ft") for part in PARTS]
    both = ablations[-1]
    small = [study.Row(f"{both.name}, {name}", (*both.settings, f"wire.value_dtype={name}")) for name in SMALL]
    results = study.run([FEDPROTO, FEDTGP, *ablations], SEEDS, common, out)
    encodings = study.run([both, *small], SEEDS[:1], common, out)
    for claim, holds in (*_byte_claims(results, both, common, out), *_accuracy_claims(results)):
        print(f"claim: {claim}: {'holds' if holds else 'does not hold'}", flush=True)
    return study.figures([*results, *encodings[1:]])


def _ablation(base: str, part: str) -> study.Row:
    cps, aps = (str(switch).lower() for switch in PARTS[part])
    settings = (f"method.name=tinyproto-{base}", "method.prototype_dim=50", f"method.cps={cps}", f"method.aps={aps}")
    return study.Row(f"tinyproto-{base}, {part}", settings, PAPER.get(f"{base}, {part}", ""))


def _byte_claims(
    results: Sequence[study.Result], both: study.Row, common: Sequence[str], out: Path
) -> Iterator[tuple[str, bool]]:
    """Yield what is claimed of elements and bytes, and whether it is so."""
    named = {result.row.name: result for result in results}
    for base, sparse in (("fedproto", "tinyproto-fp, both"), ("fedtgp", "tinyproto-ft, both")):
        up, down = (_elements(named[base], way) / _elements(named[sparse], way) for way in ("uplink", "downlink"))
        yield f"{base} sends 10 times the elements of {sparse}, here {up:g} up, {down:g} down", up == down == 10
    for dtype, size in (("f32", 4), ("f16", 2)):
        most = _most_beside([*common, *both.settings, f"wire.value_dtype={dtype}"], size, out)
        claim = f"{dtype}: at most {BYTES_BESIDE} bytes a message beside 1.05 x {size} x elements, here {most:.0f}"
        yield claim, most <= BYTES_BESIDE


def _elements(result: study.Result, way: str) -> float:
    return result.per_round(way, "elements")


def _most_beside(settings: Sequence[str], size: int, out: Path) -> float:
    """Return the most bytes of any message of two rounds beyond 1.05 times those of its elements."""
    done = job.run([*settings, "run.num_rounds=2"], out, command="simulate")
    sent = [line[way] for line in booked(done.folder) if line["kind"] == "client" for way in ("up", "down")]
    beside: list[float] = [each["encoded_bytes"] - 1.05 * size * each["elements"] for each in sent]
    return max(beside)


def _accuracy_claims(results: Sequence[study.Result]) -> Iterator[tuple[str, bool]]:
    """Yield what the paper claims of accuracies, and whether it is so."""
    best = {result.row.name: statistics.mean(result.best()) for result in results}
    loss = best["fedtgp"] - best["tinyproto-ft, both"]
    yield f"tinyproto-ft is at most 0.5 points under fedtgp, here {loss:.2f}", loss <= 0.5
    for base in ("fp", "ft"):
        order = [best[f"tinyproto-{base}, {part}"] for part in ("both", "APS", "none")]
        shown = ", ".join(f"{accuracy:.2f}" for accuracy in order)
        yield f"tinyproto-{base}: both >= APS >= none, here {shown}", order == sorted(order, reverse=True)


def _mask_figures() -> list[Figure]:
    """Return the time of the largest masks, and how far apart those of the paper's GTSRB are."""
    started = time.perf_counter()
    draw_masks(0, 1000, 2048, 205)
    took = time.perf_counter() - started
    distances = [_distances(draw_masks(seed, 43, 500, 50), 500) for seed in range(10)]
    return [
        Figure.of("masks, K = 1000, d = 2048, s = 205", "s", [took], target=2.0),
        Figure.of("mean Hamming distance, K = 43, d = 500, s = 50", "features", [each.mean() for each in distances]),
        Figure.of("smallest Hamming distance", "features", [float(each.min()) for each in distances]),
    ]


def _distances(kept_CS: np.ndarray, feature_dim: int) -> np.ndarray:
    masks_CD = np.zeros((len(kept_CS), feature_dim))
    np.put_along_axis(masks_CD, kept_CS, 1, axis=1)
    shared_CC = masks_CD @ masks_CD.T
    distances: np.ndarray = 2 * (kept_CS.shape[1] - shared_CC[np.triu_indices(len(kept_CS), 1)])
    return distances


def _server_figures() -> list[Figure]:
    """Return how long FedTGP's server half takes for a round of 100 classes, on one thread."""
    return [
        Figure.of(f"fedtgp's server half, K = 100, 20 clients, d = {dim}", "s", [_server_s(dim)], target=target)
        for dim, target in ((500, 20.0), (50, 4.0))
    ]


def _server_s(feature_dim: int) -> float:
    """Return the time of a round in which 20 clients hold 46 of 100 classes each, as many as Dirichlet 0.1 gives."""
    spec = make_spec("fedtgp", num_classes=100, model=ModelConfig(feature_dim=feature_dim))
    server = methods.find("fedtgp").make_server(spec, Config())
    random = np.random.default_rng(0)
    updates = []
    for client in range(20):
        classes = np.sort(random.permutation(100)[:46]).astype(np.uint16)
        prototypes = random.normal(size=(46, feature_dim)).astype(np.float32)
        updates.append(Update(str(client), 1000, Uplink(prototypes, classes)))
    started = time.perf_counter()
    server.aggregate(1, "prototypes", iter(updates))
    return time.perf_counter() - started
