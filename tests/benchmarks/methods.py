"""What the server halves of methods take that do more than average, and what messages hold beside their elements."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from models import methods, seeding
from models.generative import GenerativePrototypes
from models.methods.api import Server, Update
from models.methods.fedtgp import Uplink as Prototypes
from models.methods.gfpl import Mixture, flattened
from models.methods.gfpl import Uplink as Mixtures
from models.methods.tinyproto.cps import draw_masks
from models.spec import ModelConfig
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.integration.processes import booked
from tests.models.small_run import make_spec

FUSIONS = (("20 x 10 x 4, d = 512", 20, 10, 512, 10, 0.05), ("100 x 100 x 4, d = 128", 100, 100, 128, 1, 10.0))
"""Clients x classes x components, how often it is measured, and the most that fusion may take, in seconds."""

MAX_MIB = 1024
NUM_COMPONENTS, SAMPLES_EACH = 4, 25

MAX_BYTES_BESIDE = 80
"""What a message may hold beside 1.05 times the bytes of its elements."""

SPARSE = (
    "method.name=tinyproto-ft",
    "method.prototype_dim=50",
    "data.num_clients=20",
    "data.alpha=0.1",
    "model.feature_dim=500",
    "run.num_rounds=2",
)


def run(out: Path) -> list[Figure]:
    """Return times on one thread, memory, distances of masks, and bytes."""
    seeding.set_threads(1)
    fusions = [figure for case in FUSIONS for figure in _fusion(*case)]
    return [*_masks(), *_trained_prototypes(), *fusions, _sampling(), *_bytes_beside(out)]


def _masks() -> list[Figure]:
    """Return the time of the largest masks of CPS, and how far apart those of 43 classes are."""
    took_s = _wall_s(lambda: draw_masks(0, 1000, 2048, 205))
    distances = [_distances(draw_masks(seed, 43, 500, 50), 500) for seed in range(10)]
    return [
        Figure.of("masks, K = 1000, d = 2048, s = 205", "s", [took_s], target=2.0),
        Figure.of("mean Hamming distance, K = 43, d = 500, s = 50", "features", [each.mean() for each in distances]),
        Figure.of("smallest Hamming distance", "features", [float(each.min()) for each in distances]),
    ]


def _distances(kept_CS: np.ndarray, feature_dim: int) -> np.ndarray:
    masks_CD = np.zeros((len(kept_CS), feature_dim))
    np.put_along_axis(masks_CD, kept_CS, 1, axis=1)
    shared_CC = masks_CD @ masks_CD.T
    distances: np.ndarray = 2 * (kept_CS.shape[1] - shared_CC[np.triu_indices(len(kept_CS), 1)])
    return distances


def _trained_prototypes() -> list[Figure]:
    """Return how long FedTGP's server half takes for a round of 100 classes."""
    return [
        Figure.of(f"fedtgp's server half, K = 100, 20 clients, d = {dim}", "s", [_trained_s(dim)], target=target)
        for dim, target in ((500, 20.0), (50, 4.0))
    ]


def _trained_s(feature_dim: int) -> float:
    """Return the time of a round in which 20 clients hold 46 of 100 classes each, as many as Dirichlet 0.1 gives."""
    server, random, updates = _server("fedtgp", 100, feature_dim, {}), np.random.default_rng(0), []
    for client in range(20):
        classes = np.sort(random.permutation(100)[:46]).astype(np.uint16)
        prototypes = random.normal(size=(46, feature_dim)).astype(np.float32)
        updates.append(Update(str(client), 1000, Prototypes(prototypes, classes)))
    return _wall_s(lambda: server.aggregate(1, "prototypes", iter(updates)))


def _fusion(
    name: str, num_clients: int, num_classes: int, feature_dim: int, repeats: int, target_s: float
) -> Iterator[Figure]:
    """Yield the time of GFPL's server half for one interaction round, and the memory that it takes."""
    updates = _mixtures(num_clients, num_classes, feature_dim)
    own = {"first_interaction": 1, "interaction_interval": 1, "projection_dim": num_classes}
    server = _server("gfpl", num_classes, feature_dim, own)

    def aggregate() -> None:
        server.aggregate(1, "mixtures", iter(updates))

    yield Figure.of(f"fusion {name}", "s", [_wall_s(aggregate) for _ in range(repeats)], target=target_s)
    tracemalloc.start()
    aggregate()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield Figure.of(f"fusion {name}: memory", "MiB", [peak_bytes / 2**20], target=MAX_MIB)


def _mixtures(num_clients: int, num_classes: int, feature_dim: int) -> Sequence[Update]:
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
        uplink = Mixtures(**flattened(mixtures, feature_dim), counts=counts)
        made.append(Update(f"{index:03d}", int(counts.sum()), uplink))
    return made


def _sampling() -> Figure:
    """Return how long an epoch's features of ViT-B/16 and 100 classes take HGP to draw, from 1,000 Gaussians."""
    random = np.random.default_rng(0)
    means, variances = random.random((2, 1000, 768), np.float32)
    mixture = GenerativePrototypes(means, variances, np.arange(1000) % 100, random.integers(2, 50, 1000))
    walls_s = [_wall_s(lambda: mixture.sample(25_600, random, scale=3.0)) for _ in range(5)]
    return Figure.of("sampling 25,600 features of width 768", "s", walls_s, target=0.5)


def _bytes_beside(out: Path) -> Iterator[Figure]:
    """Yield the most bytes that any message of two rounds holds beyond 1.05 times those of its elements."""
    for dtype, size in (("f32", 4), ("f16", 2)):
        done = job.run([*SPARSE, f"wire.value_dtype={dtype}"], out, command="simulate")
        sent = [line[way] for line in booked(done.folder) if line["kind"] == "client" for way in ("up", "down")]
        most = max(each["encoded_bytes"] - 1.05 * size * each["elements"] for each in sent)
        yield Figure.of(f"largest message of TinyProto beside 1.05 x {dtype}", "B", [most], target=MAX_BYTES_BESIDE)


def _server(name: str, num_classes: int, feature_dim: int, settings: Mapping[str, object]) -> Server:
    method = methods.find(name)
    model = ModelConfig(feature_dim=feature_dim)
    spec = make_spec(name, num_classes=num_classes, model=model, method_config=dict(settings))
    return method.make_server(spec, methods.read_config(method, settings))


def _wall_s(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
