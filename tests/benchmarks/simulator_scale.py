"""What many simulated clients take, and how well a replayed run keeps the time of the real one."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure, slope

MANY, NUM_ROUNDS, MAX_MANY_S = 1_000, 10, 20.0
VERY_MANY, SAMPLED, SAMPLED_ROUNDS = 10_000, 0.01, 50
MAX_BYTES_PER_ROUND = 50 * 1024
STATE_BYTES, MAX_PEAK_MIB = 100_000, 2048.0
REPLAY_ROUNDS, MAX_APART = 12, 0.2


def run(out: Path) -> list[Figure]:
    """Return what many clients take that compute nothing, and how far a replayed round is from the measured one."""
    return [*_many(out), *_sampled(out), _states(out), _replay(out)]


def _many(out: Path) -> list[Figure]:
    name = f"{MANY:,} clients x {NUM_ROUNDS} rounds that compute nothing"
    processor_s = [0.0]

    def watch(running: job.RunningJob) -> None:
        for _, process in running.processes():
            times = process.cpu_times()
            processor_s[0] = times.user + times.system

    done = job.run(job.noop_settings(out, MANY, NUM_ROUNDS, "disk"), out, watch, command="simulate")
    return [
        Figure.of(name, "s", [done.wall_s], target=MAX_MANY_S),
        Figure.of(f"{name}: of one processor", "s", processor_s, target=MAX_MANY_S),
    ]


def _sampled(out: Path) -> list[Figure]:
    """Return how much memory grows in a round in which few of very many clients take part."""
    resident: dict[int, int] = {}

    def watch(running: job.RunningJob) -> None:
        for _, process in running.processes():
            resident[running.rounds_closed()] = process.memory_info().rss

    settings = [*job.noop_settings(out, VERY_MANY, SAMPLED_ROUNDS, "disk"), f"round.fraction={SAMPLED}"]
    done = job.run(settings, out, watch, command="simulate")
    seen = {closed: rss for closed, rss in resident.items() if 5 <= closed < SAMPLED_ROUNDS}
    name = f"{VERY_MANY:,} clients, {SAMPLED:.0%} in each of {SAMPLED_ROUNDS} rounds"
    growth = slope(list(seen), list(seen.values()))
    return [
        Figure.of(f"{name}: growth", "bytes/round", [growth], target=MAX_BYTES_PER_ROUND),
        Figure.of(f"{name}: wall time", "s", [done.wall_s]),
    ]


def _states(out: Path) -> Figure:
    """Return the peak memory of very many clients that each keep a state."""
    settings = [
        *job.noop_settings(out, VERY_MANY, 2, "disk"),
        "method.name=noop:KEEPER",
        f"method.state_bytes={STATE_BYTES}",
    ]
    memory = job.run(settings, out, command="simulate", timeout_s=1800.0).summary["memory"]
    peak_mib = memory["coordinator_peak_rss_bytes"] / 2**20
    return Figure.of(
        f"{VERY_MANY:,} clients with states of {STATE_BYTES:,} bytes: peak", "MiB", [peak_mib], target=MAX_PEAK_MIB
    )


def _replay(out: Path) -> Figure:
    """Return how far the simulated round of a replayed run is from the round that was measured."""
    settings = [f"run.num_rounds={REPLAY_ROUNDS}"]
    real = job.run(settings, out)
    replayed = job.run(settings, out, command="simulate", more=["--profiles-from", str(real.folder)])
    ratio = replayed.summary["simulated"]["round_s"]["median"] / real.summary["round_s"]["median"]
    return Figure.of("a replayed round apart from the measured one", "share", [abs(ratio - 1)], target=MAX_APART)
