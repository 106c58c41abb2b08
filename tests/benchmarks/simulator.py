"""How fast the simulator is beside a plain loop that trains the same clients, and how much faster clients are together.

Plain loop and simulator train the same nets on the same samples in batches of the same sizes, each process on one
thread, in turns. They are compared by the processor's time for a round, as other work on the machine changes the
clock's by far more than the simulator does; two jobs by the clock, the fastest round of each. Neither evaluates in the
rounds that count (the simulator's last one does, and does not count), and the method of the simulated run exchanges
nothing. The images are MNIST's by a published split, where `shared/data` beside the repository has them.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import job, mnist_split, plain_loop, together
from tests.benchmarks.figure import Figure

REPEATS = 3
NUM_CLIENTS = 20
NUM_TEST = 40
FEATURE_DIM = 50
LOCAL_EPOCHS = 1
BATCH_SIZE = 32
MIN_RATIO = 0.95
MIN_JOBS_RATIO = 1.6
MAX_OUTSIDE_PERCENT = 5.0

CASES = (("cnn", 28, 600, 3, True), ("mlp", 8, 80, 40, False))
"""Net, side of the images, train samples of a client, rounds that count, and whether there are bounds to keep to."""

BATCHED = (("mlp", 8, 1.5), ("cnn", 28, 1.5))
"""Net, side of the images, and how much faster clients must train together than one after the other, on a CPU."""

SMALL_BATCH = 4

MIN_GPU_RATIO = 10.0


def run(out: Path) -> list[Figure]:
    """Return client-rounds per second of all, and their ratios."""
    own = [figure for case in CASES for figure in _of_case(out, *case)]
    batched = [_batched(net, side, SMALL_BATCH, "cpu", target) for net, side, target in BATCHED]
    return [*own, *batched, *_on_gpu(out)]


def _of_case(out: Path, net: str, side: int, num_train: int, num_rounds: int, is_bound: bool) -> list[Figure]:
    work = _make_work(out, net, side, num_train, num_rounds)
    plain, own, outside, ratios, jobs_ratios = [], [], [], [], []
    for _ in range(REPEATS):
        loop, simulated = plain_loop.rounds(work), _Simulated(work, out)
        plain.append(work.num_clients / statistics.mean(taken.processor_s for taken in loop[1:]))
        own.append(work.num_clients / simulated.processor_s)
        outside.append(simulated.outside_percent)
        ratios.append(own[-1] / plain[-1])
        jobs = _Simulated(work, out, "simulation.jobs=2")
        jobs_ratios.append(min(taken.wall_s for taken in loop) / jobs.wall_s)
    name, unit = f"{net}, {num_train} images of {side} x {side}", "client-rounds/s of a processor"
    target, jobs_target, most = (MIN_RATIO, MIN_JOBS_RATIO, MAX_OUTSIDE_PERCENT) if is_bound else (None, None, None)
    return [
        Figure.of(f"{name}: plain loop", unit, plain),
        Figure.of(f"{name}: simulator", unit, own),
        Figure.of(f"{name}: simulator to plain loop", "ratio", ratios, target=target, at_least=True),
        Figure.of(f"{name}: time of a simulated round outside training", "%", outside, target=most),
        Figure.of(f"{name}: two jobs to plain loop", "ratio", jobs_ratios, target=jobs_target, at_least=True),
    ]


class _Simulated:
    """A simulated run: what its rounds take, but for the last one, which evaluates."""

    def __init__(self, work: plain_loop.Work, out: Path, *more: str) -> None:
        self._num_rounds = work.num_rounds
        self._used_s: dict[int, float] = {}
        self._done = job.run(_settings(work, *more), out, self._watch, command="simulate")

    @property
    def wall_s(self) -> float:
        """By the clock, the fastest round."""
        return min(float(line["round_s"]) for line in self._done.rounds[: self._num_rounds])

    @property
    def processor_s(self) -> float:
        """Of the processor, the mean of the rounds after the first that was seen to close."""
        first, last = min(self._used_s), max(self._used_s)
        return (self._used_s[last] - self._used_s[first]) / (last - first)

    @property
    def outside_percent(self) -> float:
        """The share of the rounds' time in which no client trained."""
        lines = [json.loads(line) for line in (self._done.folder / "metrics.jsonl").read_text().splitlines()]
        counted = [line for line in lines if line["round"] <= self._num_rounds]
        training_s = sum(line["train_s"] for line in counted if line["kind"] == "client")
        round_s = sum(line["round_s"] for line in counted if line["kind"] == "round")
        return float(100 * (1 - training_s / round_s))

    def _watch(self, running: job.RunningJob) -> None:
        closed = running.rounds_closed()
        if closed in self._used_s or not 1 <= closed <= self._num_rounds:
            return
        times = [process.cpu_times() for _, process in running.processes()]
        self._used_s[closed] = sum(each.user + each.system for each in times)


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
    work, shares = _make_work(out, "cnn", 28, 600, 20, together.NUM_CLIENTS), []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]

    def watch(running: job.RunningJob) -> None:
        if running.rounds_closed():
            told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            shares.append(float(told.splitlines()[0]))

    settings = _settings(work, "simulation.batched=true", "training.device=cuda")
    job.run(settings, out, watch, command="simulate")
    return Figure.of("GPU at work", "%", shares or [float("nan")])


def _make_work(
    out: Path, net: str, side: int, num_train: int, num_rounds: int, num_clients: int = NUM_CLIENTS
) -> plain_loop.Work:
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
        str(samples), str(indices), num_clients, net, FEATURE_DIM, LOCAL_EPOCHS, BATCH_SIZE, num_rounds
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
