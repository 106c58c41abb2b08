"""The main job: FedProto on digits, as `make demo` runs it, with two seeds."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure

SEEDS = (0, 1)
MAX_WALL_S = 60.0
MIN_ACCURACY = 0.94
MAX_MEMORY_MIB = 45.0


def run(out: Path) -> list[Figure]:
    """Return wall time, best accuracies and peak memory."""
    jobs = {seed: job.run([f"run.seed={seed}"], out) for seed in SEEDS}
    figures = [Figure.of("wall time", "s", [done.wall_s for done in jobs.values()], target=MAX_WALL_S)]
    for seed, done in jobs.items():
        for rule in ("head", "local_prototype"):
            best = done.summary["accuracy_by_rule"][rule]["best"]
            figures.append(Figure.of(f"seed {seed}: best {rule}", "share", [best], target=MIN_ACCURACY, at_least=True))
    return figures + [_memory(kind, [done.summary["memory"] for done in jobs.values()]) for kind in job.KINDS]


def _memory(kind: str, peaks: list[dict[str, int]]) -> Figure:
    target = None if kind == "trainer" else MAX_MEMORY_MIB
    return Figure.of(
        f"peak memory {kind}", "MiB", [peak[f"{kind}_peak_rss_bytes"] / 2**20 for peak in peaks], target=target
    )
