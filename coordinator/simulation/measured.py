"""`--profiles-from RUN_DIR`: the profiles of the clients of a run that really took place, from what it measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from coordinator.config import RunConfig
from coordinator.metrics.tally import ClientLine, Line, RoundLine, read_line
from coordinator.metrics.written_lines import all_written_lines
from coordinator.simulation.fleet import num_trained
from coordinator.simulation.profiles import Profile
from coordinator.store.run_folder import RunFolder
from models import methods
from models.methods.api import Method
from models.spec import ConfigError, RunSpec

MIN_SPREAD = 2.0
"""A client's messages must differ in size by so much that what a byte takes can be told from what any message takes."""


class Measured(NamedTuple):
    """The profiles by client, and what each exchange took beside them."""

    profiles: dict[str, Profile]
    coordinator_s: float


def with_profiles_of(config: RunConfig, path: Path) -> RunConfig:
    """Return these settings with the profiles of the clients of another run, which are given in turn.

    Raises:
        ConfigError: there is no such run, or it has not measured what a profile is made of.
    """
    measured = read_profiles(path)
    section = msgspec.structs.replace(
        config.simulation,
        profiles=sorted(measured.profiles),
        own=measured.profiles,
        coordinator_s=measured.coordinator_s,
    )
    return msgspec.structs.replace(config, simulation=section)


def read_profiles(path: Path) -> Measured:
    """Return what a run's accounts say of its clients' speed and links.

    The replayed round is the usual one: medians over the rounds. Where the slowest client is now one and now another, a
    round takes longer than any client usually does; that is part of `coordinator_s`.

    Raises:
        ConfigError: there is no such run, or no round of it was measured.
    """
    folder = RunFolder.open(path)
    try:
        histogram = folder.read_histogram()
        lines = [read_line(line) for line in all_written_lines(folder.metrics_path)]
    except ConfigError as error:
        raise ConfigError(f"--profiles-from {path}: {error}") from None
    spec = folder.read_config().unchecked_spec(folder.run_id, histogram.classes)
    counts = {client: held["train"] for client, held in histogram.clients.items()}
    method = methods.find(spec.method)
    by_client = _by_client(lines, method)
    round_s = [line.round_s for line in lines if isinstance(line, RoundLine) and line.round_s is not None]
    if not round_s or not by_client or folder.read_summary().get("mode") == "simulate":
        raise ConfigError(f"--profiles-from {path}: expected a run of real clients with a measured round, got none")
    if unknown := sorted(set(by_client) - set(counts)):
        expected = f"expected the samples of {', '.join(unknown)} in {folder.histogram_path.name}, got none"
        raise ConfigError(f"--profiles-from {path}: {expected}")
    profiles = {client: _profile(found, counts[client], spec) for client, found in by_client.items()}
    slowest_s = max(float(np.median(_sums(found, "turnaround_s"))) for found in by_client.values())
    return Measured(profiles, max(0.0, float(np.median(round_s)) - slowest_s) / len(method.exchanges))


def _by_client(lines: Iterable[Line], method: Method) -> dict[str, list[ClientLine]]:
    """Return the exchanges of which all is known, but for evaluations."""
    found: dict[str, list[ClientLine]] = defaultdict(list)
    for line in (line for line in lines if isinstance(line, ClientLine)):
        if not method.is_evaluation(line.exchange_index) and None not in (line.turnaround_s, line.work_s):
            found[line.client].append(line)
    return found


def _profile(lines: Sequence[ClientLine], counts: Sequence[int], spec: RunSpec) -> Profile:
    method = methods.find(spec.method)
    trained = [line for line in lines if method.exchanges[line.exchange_index].trains and line.train_s]
    rates = [_num_samples(line, counts, spec) / (line.train_s or 1.0) for line in trained]
    train_s = {id(line): line.train_s or 0.0 for line in trained}
    overhead_s = float(np.median([(line.work_s or 0.0) - train_s.get(id(line), 0.0) for line in lines]))
    latency_s, mbit_s = _link(lines)
    return Profile(
        samples_per_s=float(np.median(rates)) if rates else 0.0,
        overhead_s=overhead_s,
        up_mbit_s=mbit_s,
        down_mbit_s=mbit_s,
        latency_s=latency_s,
    )


def _num_samples(line: ClientLine, counts: Sequence[int], spec: RunSpec) -> int:
    classes = spec.plan.classes(spec.plan.task_of(line.round))
    return num_trained(sum(counts[classes.start : classes.stop]), spec)


def _link(lines: Sequence[ClientLine]) -> tuple[float, float]:
    """Return the latency one way and the rate of a link, 0 where all that a message takes is latency."""
    sizes = np.array([line.up.encoded_bytes + line.down.encoded_bytes for line in lines], np.float64)
    taken_s = np.array([max(0.0, (line.turnaround_s or 0.0) - (line.work_s or 0.0)) for line in lines])
    if sizes.min() > 0 and sizes.max() >= MIN_SPREAD * sizes.min():
        byte_s, both_s = np.polyfit(sizes, taken_s, 1)
        if byte_s > 0 and both_s > 0:
            return float(both_s) / 2, float(8 / byte_s / 1e6)
    return float(np.median(taken_s)) / 2, 0.0


def _sums(lines: Sequence[ClientLine], name: str) -> list[float]:
    """Return a figure's sum over the exchanges of each round."""
    sums: dict[int, float] = defaultdict(float)
    for line in lines:
        sums[line.round] += getattr(line, name)
    return list(sums.values())
