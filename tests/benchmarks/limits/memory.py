"""Peak memory of every process beside that of an interpreter with the packages that it cannot do without.

Resident memory, which counts a library's pages in every process that has them. Clients compute nothing, 10 x 50 float32
each way, CURVE, store on disk; those with onnxruntime train on digits with a backbone of one layer.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks import job, torch_free
from tests.benchmarks.figure import Figure

NUM_CLIENTS, NUM_ROUNDS = 2, 30
REPEATS = 3

DAEMON = "asyncio, numpy, zmq, msgspec"
CHILD = "numpy, msgspec"
ONNX_CHILD = f"{CHILD}, onnxruntime"

MAX_COORDINATOR_MIB = 90.0
MAX_CLIENT_MIB = 80.0

PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def run(out: Path) -> list[Figure]:
    """Return peaks of each process and of both sides, in MiB; those with onnxruntime where it is installed."""
    peaks = _peaks(job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "disk"), out)
    figures = [
        *_side(("coordinator", "aggregator"), peaks, CHILD, MAX_COORDINATOR_MIB),
        *_side(("client", "trainer"), peaks, CHILD, MAX_CLIENT_MIB),
    ]
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return figures
    peaks = _peaks([*torch_free.SETTINGS, *torch_free.files(out)], out)
    return [*figures, *_side(("client", "trainer"), peaks, ONNX_CHILD, None, "onnxruntime: ")]


def _peaks(settings: list[str], out: Path) -> list[dict[str, int]]:
    return [job.run(settings, out).summary["memory"] for _ in range(REPEATS)]


def _side(
    kinds: tuple[str, str], peaks: list[dict[str, int]], child_needs: str, target: float | None, prefix: str = ""
) -> list[Figure]:
    """Return the figures of a daemon, of its child and of both."""
    own_mib = [[peak[f"{kind}_peak_rss_bytes"] / 2**20 for peak in peaks] for kind in kinds]
    bare_mib = [_bare_mib(DAEMON), _bare_mib(child_needs)]
    both = Figure.of(
        f"{prefix}{' and '.join(kinds)}", "MiB", list(map(sum, zip(*own_mib, strict=True))), target=target,
        limit=sum(bare_mib), limit_name="bare imports",
    )  # fmt: skip
    each = zip(kinds, own_mib, bare_mib, strict=True)
    return [
        *(Figure.of(f"{prefix}{kind}", "MiB", own, limit=bare, limit_name="bare imports") for kind, own, bare in each),
        both,
    ]


def _bare_mib(packages: str) -> float:
    """Return the peak of an interpreter that imports these packages, the median of several."""
    code = f"import {packages}\n{PEAK}"
    command = [sys.executable, "-I", "-c", code]
    told = [subprocess.run(command, capture_output=True, check=True, timeout=60).stdout for _ in range(REPEATS)]
    return statistics.median(int(kib) for kib in told) / 1024
