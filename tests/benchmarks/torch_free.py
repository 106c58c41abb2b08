"""Clients without torch: their memory on digits with a small backbone, how soon they are there, and their disk.

The run's processes have an environment of their own with nothing but `protoedge[onnx]`, which pip makes first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.benchmarks import job
from tests.benchmarks.figure import Figure, Skipped
from tests.models.onnx_files import write_backbone

ROOT = Path(__file__).parents[2]

REPEATS = 5
INSTALL_S = 600.0

MAX_MEMORY_MIB = 110.0
MAX_JOIN_S = 1.5
MAX_DISK_MB = 350.0

SETTINGS = (
    "model.name=onnx",
    "model.feature_dim=50",
    "data.dataset=npz",
    "data.num_clients=2",
    "run.num_rounds=10",
    "report.page=false",
)


def run(out: Path) -> list[Figure]:
    """Return the figures.

    Raises:
        Skipped: a package is missing, or pip cannot install.
    """
    python = make_environment(out)
    settings = [*SETTINGS, *files(out)]
    jobs = [job.run(settings, out, python=python) for _ in range(REPEATS)]
    accuracies = [done.summary["accuracy"]["best"] for done in jobs]
    return [
        Figure.of("peak memory, daemon and trainer", "MiB", list(map(_both_mib, jobs)), target=MAX_MEMORY_MIB),
        Figure.of("client started to joined", "s", list(map(_joined_s, jobs)), target=MAX_JOIN_S),
        Figure.of("client started to its first task", "s", list(map(_first_task_s, jobs))),
        Figure.of("best local_prototype", "share", accuracies),
        Figure.of("environment on disk", "MB", [_size_mb(python.parents[1])], target=MAX_DISK_MB),
    ]


def make_environment(out: Path) -> Path:
    """Return the interpreter of an environment that has nothing but `protoedge[onnx]`.

    Raises:
        Skipped: pip cannot make it.
    """
    folder = out / "torch-free"
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_S)
        command = [str(python), "-m", "pip", "install", "-qq", f"{ROOT}[onnx]"]
        subprocess.run(command, check=True, timeout=INSTALL_S, capture_output=True, text=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Skipped(f"no environment of its own: {error}") from None
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        raise Skipped("torch is in every environment here")
    _forget(folder)
    return python


def _forget(folder: Path) -> None:
    """Have the system read files from disk again, as after a boot: of those just written it maps far larger pieces."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def files(out: Path) -> list[str]:
    """Write the digits and a backbone of one layer, and return the settings that name them.

    Raises:
        Skipped: a package is missing.
    """
    try:
        from sklearn.datasets import load_digits

        write_backbone(out / "backbone.onnx", (1, 8, 8), 64)
    except ImportError as error:
        raise Skipped(str(error)) from None
    x, y = load_digits(return_X_y=True)
    np.savez(out / "digits.npz", x=(x / 16).astype(np.float32).reshape(-1, 1, 8, 8), y=y)
    return [f"data.root={out / 'digits.npz'}", f"model.path={out / 'backbone.onnx'}"]


def _both_mib(done: job.Job) -> float:
    memory = done.summary["memory"]
    return float(sum(memory[f"{kind}_peak_rss_bytes"] for kind in ("client", "trainer"))) / 2**20


def _joined_s(done: job.Job) -> float:
    """Return how long after the coordinator listened, when clients are started, the last of them had joined."""
    return _told_at(done, "client-.. joined")[-1] - _told_at(done, "listening")[0]


def _first_task_s(done: job.Job) -> float:
    """Return how long after that all had a trainer with their features, and the first round opened."""
    return _told_at(done, r"\[ROUND 1/")[0] - float(done.rounds[0]["round_s"]) - _told_at(done, "listening")[0]


def _told_at(done: job.Job, pattern: str) -> list[float]:
    """Return when the log has lines that begin so, in seconds."""
    log = (done.folder / "log.txt").read_text()
    return [float(at) for at in re.findall(rf"^ *([\d.]+)  {pattern}", log, re.MULTILINE)]


def _size_mb(folder: Path) -> float:
    return float(sum(path.lstat().st_size for path in folder.rglob("*"))) / 1e6
