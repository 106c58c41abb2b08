"""Client-rounds per second of the simulator, beside those of a plain loop that trains the same clients.

Both train the same nets on the same samples in batches of the same sizes, on one thread, each in a process of its own,
in turns. Neither evaluates in the rounds that count (the simulator's last one does, and does not count), and
the method of the simulated run exchanges nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import job, plain_loop
from tests.benchmarks.figure import Figure

REPEATS = 5
NUM_ROUNDS = 3
NUM_CLIENTS = 20
NUM_TEST = 40
FEATURE_DIM = 50
LOCAL_EPOCHS = 1
BATCH_SIZE = 32
MIN_RATIO = 0.95

CASES = (("cnn", 28, 600, MIN_RATIO), ("mlp", 8, 80, None))
"""Net, side of the images, train samples of a client, and how fast the simulator must be beside the plain loop."""


def run(out: Path) -> list[Figure]:
    """Return client-rounds per second of both, and their ratio."""
    return [figure for case in CASES for figure in _of_case(out, *case)]


def _of_case(out: Path, net: str, side: int, num_train: int, target: float | None) -> list[Figure]:
    work = _make_work(out, net, side, num_train)
    plain, simulated, ratios = [], [], []
    for _ in range(REPEATS):
        plain.append(_rate(plain_loop.rounds_s(work)))
        simulated.append(_rate(_simulated_rounds_s(work, out)))
        ratios.append(simulated[-1] / plain[-1])
    name = f"{net}, {num_train} images of {side} x {side}"
    return [
        Figure.of(f"{name}: plain loop", "client-rounds/s", plain),
        Figure.of(f"{name}: simulator", "client-rounds/s", simulated),
        Figure.of(f"{name}: simulator to plain loop", "ratio", ratios, target=target, at_least=True),
    ]


def _rate(rounds_s: list[float]) -> float:
    """Return the client-rounds per second of the fastest round: whatever else the machine does only slows one down."""
    return NUM_CLIENTS / min(rounds_s)


def _make_work(out: Path, net: str, side: int, num_train: int) -> plain_loop.Work:
    """Write noisy images with a bright row for the class, and equal parts of them for all clients."""
    draw = np.random.default_rng(0)
    num_each = num_train + NUM_TEST
    y = draw.integers(0, 10, NUM_CLIENTS * num_each)
    x = draw.integers(0, 160, (len(y), side, side), np.uint8)
    x[np.arange(len(y)), y % side] += 60
    x[np.arange(len(y)), :, y % side] += 30
    rows = np.arange(len(y)).reshape(NUM_CLIENTS, num_each)
    parts: dict[str, Any] = {f"client{index:02d}_train": rows[index, :num_train] for index in range(NUM_CLIENTS)}
    parts |= {f"client{index:02d}_test": rows[index, num_train:] for index in range(NUM_CLIENTS)}
    samples, indices = out / f"{net}.npz", out / f"{net}-indices.npz"
    np.savez(samples, x=x, y=y)
    np.savez(indices, **parts)
    return plain_loop.Work(
        str(samples), str(indices), NUM_CLIENTS, net, FEATURE_DIM, LOCAL_EPOCHS, BATCH_SIZE, NUM_ROUNDS
    )


def _simulated_rounds_s(work: plain_loop.Work, out: Path) -> list[float]:
    """Return how long each round takes but the last, which evaluates."""
    settings = [
        "method.name=local_only",
        "data.dataset=npz",
        f"data.root={work.samples}",
        "data.partition=indices",
        f"data.indices={work.indices}",
        f"data.num_clients={work.num_clients}",
        f"model.name={work.net}",
        f"model.feature_dim={work.feature_dim}",
        f"training.local_epochs={work.local_epochs}",
        f"training.batch_size={work.batch_size}",
        f"training.lr={plain_loop.LR}",
        "training.momentum=0",
        "training.device=cpu",
        f"run.num_rounds={work.num_rounds + 1}",
        f"evaluation.every={work.num_rounds + 1}",
    ]
    rounds = job.run(settings, out, command="simulate").rounds
    return [line["round_s"] for line in rounds[: work.num_rounds]]
