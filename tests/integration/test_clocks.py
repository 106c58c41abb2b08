"""Nobody's clock has to be right: durations are by clocks that only go on, and how far a client's is off is told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import WAIT_S, booked
from wire.exit_codes import ExitCode

HOUR_S = 3600.0

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static long num_looks;
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += 3600 + LEAP_S * num_looks++;
    return failed;
}
"""
"""Clocks as the system's, but that the time of day is an hour ahead, and LEAP_S more with each look."""


def wrong_clock(folder: Path, leap_s: int) -> str:
    """Return the library that a process must load before the C library to have such a clock."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a clock that is wrong needs a C compiler")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    options = ["-shared", "-fPIC", f"-DLEAP_S={leap_s}"]
    subprocess.run([compiler, *options, "-o", library, source, "-ldl"], check=True, timeout=60)
    return str(library)


def durations(line: dict[str, Any]) -> list[float]:
    return [value for key, value in line.items() if key.endswith("_s") and value is not None]


@pytest.mark.slow
@pytest.mark.parametrize("leap_s", [0, 600], ids=["an hour ahead", "leaps"])
def test_a_wrong_clock_is_told_of_and_in_no_duration(pairs: PairsRun, tmp_path: Path, leap_s: int) -> None:
    coordinator = pairs.serve()
    right = pairs.client(0, coordinator.address)
    pairs.processes.environment["LD_PRELOAD"] = wrong_clock(tmp_path, leap_s)
    wrong = pairs.client(1, coordinator.address)
    assert [process.wait() for process in (coordinator, right, wrong)] == [ExitCode.FINISHED] * 3
    links = coordinator.summary["wire"]["clients"]
    skew_s = [links[client]["clock_skew_s"] for client in sorted(links)]
    assert abs(skew_s[0]) < 10
    assert skew_s[1] == pytest.approx(HOUR_S, abs=10) if leap_s == 0 else skew_s[1] > HOUR_S - 10
    took_s = [duration for line in booked(coordinator.folder) for duration in durations(line)]
    assert len(took_s) > 50
    assert 0.0 <= min(took_s) <= max(took_s) < WAIT_S
