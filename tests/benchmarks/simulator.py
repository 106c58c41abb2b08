"""How fast the simulator is beside a plain loop that trains the same clients, and how far it scales.

Plain loop and simulator train the same nets on the same samples in batches of the same sizes, each process on one
thread, in turns; of each the fastest round counts, as whatever else the machine does only slows one down. Neither
evaluates in the rounds that count (the simulator's last one does, and does not count), and the method of the simulated
run exchanges nothing. The images are MNIST's by a published split, where `shared/data` beside the repository has them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import job, mnist_split, plain_loop, simulator_scale, together
from tests.benchmarks.figure import Figure

REPEATS = 3
NUM_ROUNDS = 3
NUM_CLIENTS = 20
NUM_TEST = 40
FEATURE_DIM = 50
LOCAL_EPOCHS = 1
BATCH_SIZE = 32
MIN_RATIO = 0.95
MIN_JOBS_RATIO = 1.6

CASES = (("cnn", 28, 600, MIN_RATIO), ("mlp", 8, 80, None))
"""Net, side of the images, train samples of a client, and how fast the simulator must be beside the plain loop."""

BATCHED = (("mlp", 8, 1.5), ("cnn", 28, 1.5))
"""Net, side of the images, and how much faster clients must train together than one after the other, on a CPU."""

SMALL_BATCH = 4

MIN_GPU_RATIO = 10.0


def run(out: Path) -> list[Figure]:
    """Return client-rounds per second of all, their ratios, and what many clients take."""
    own = [figure for case in CASES for figure in _of_case(out, *case)]
    batched = [_batched(net, side, SMALL_BATCH, "cpu", target) for net, side, target in BATCHED]
    return [*own, *batched, *_on_gpu(out), *simulator_scale.figures(out)]


def _of_case(out: Path, net: str, side: int, num_train: int, target: float | None) -> list[Figure]:
    work = _make_work(out, net, side, num_train)
    plain, own, jobs = [], [], []
    for _ in range(REPEATS):
        plain.append(_rate(plain_loop.rounds_s(work), work))
        own.append(_rate(_simulated_rounds_s(work, out), work))
        jobs.append(_rate(_simulated_rounds_s(work, out, "simulation.jobs=2"), work))
    name, unit = f"{net}, {num_train} images of {side} x {side}", "client-rounds/s"
    own_ratio, jobs_ratio = ([rate / base for rate, base in zip(rates, plain, strict=True)] for rates in (own, jobs))
    jobs_target = MIN_JOBS_RATIO if target else None
    return [
        Figure.of(f"{name}: plain loop", unit, plain),
        Figure.of(f"{name}: simulator", unit, own),
        Figure.of(f"{name}: two jobs", unit, jobs),
        Figure.of(f"{name}: simulator to plain loop", "ratio", own_ratio, target=target, at_least=True),
        Figure.of(f"{name}: two jobs to plain loop", "ratio", jobs_ratio, target=jobs_target, at_least=True),
    ]


def _batched(net: str, side: int, batch_size: int, device: str, target: float) -> Figure:
    ratios = [together.speedup(net, side, batch_size, device) for _ in range(REPEATS)]
    name = f"{net}, {together.NUM_CLIENTS} clients, batches of {batch_size} on {device}: speed-up of training together"
    return Figure.of(name, "ratio", ratios, target=target, at_least=True)


def _on_gpu(out: Path) -> list[Figure]:
    """Return the same for a GPU, and how busy it was, where there is one."""
    if shutil.which("nvidia-smi") is None:
        return []
    return [_batched("cnn", 28, BATCH_SIZE, "cuda", MIN_GPU_RATIO), _gpu_use(out)]


def _gpu_use(out: Path) -> Figure:
    """Return the share of the time in which the GPU was at work while clients trained together."""
    work, shares = _make_work(out, "cnn", 28, 600, together.NUM_CLIENTS), []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]

    def watch(running: job.RunningJob) -> None:
        if running.rounds_closed():
            told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            shares.append(float(told.splitlines()[0]))

    settings = _settings(work, "simulation.batched=true", "training.device=cuda", "run.num_rounds=20")
    job.run(settings, out, watch, command="simulate")
    return Figure.of("GPU at work", "%", shares or [float("nan")])


def _rate(rounds_s: list[float], work: plain_loop.Work) -> float:
    """Return the client-rounds per second of the fastest round."""
    return work.num_clients / min(rounds_s)


def _make_work(out: Path, net: str, side: int, num_train: int, num_clients: int = NUM_CLIENTS) -> plain_loop.Work:
    """Write images, and equal parts of them for all clients."""
    num_each = num_train + NUM_TEST
    x, y = _images(side, num_clients * num_each)
    rows = np.arange(len(y)).reshape(num_clients, num_each)
    parts: dict[str, Any] = {f"client{index:02d}_train": rows[index, :num_train] for index in range(num_clients)}
    parts |= {f"client{index:02d}_test": rows[index, num_train:] for index in range(num_clients)}
    samples, indices = out / f"{net}-{num_clients}.npz", out / f"{net}-{num_clients}-indices.npz"
    np.savez(samples, x=x, y=y)
    np.savez(indices, **parts)
    return plain_loop.Work(
        str(samples), str(indices), num_clients, net, FEATURE_DIM, LOCAL_EPOCHS, BATCH_SIZE, NUM_ROUNDS
    )


def _images(side: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return MNIST's images in the order of its split, where they are and fit, or noisy ones."""
    if side == 28 and mnist_split.SAMPLES.exists() and mnist_split.INDICES.exists():
        with np.load(mnist_split.SAMPLES) as samples, np.load(mnist_split.INDICES) as split:
            order = np.concatenate([split[name] for name in sorted(split) if name.endswith("_train")])[:count]
            return samples["x"][order].reshape(-1, side, side), samples["y"][order]
    draw = np.random.default_rng(0)
    y = draw.integers(0, 10, count)
    x = draw.integers(0, 160, (count, side, side), np.uint8)
    x[np.arange(count), y % side] += 60
    x[np.arange(count), :, y % side] += 30
    return x, y


def _simulated_rounds_s(work: plain_loop.Work, out: Path, *more: str) -> list[float]:
    """Return how long each round takes but the last, which evaluates."""
    rounds = job.run(_settings(work, *more), out, command="simulate").rounds
    return [line["round_s"] for line in rounds[: work.num_rounds]]


def _settings(work: plain_loop.Work, *more: str) -> list[str]:
    return [
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
        *more,
    ]
