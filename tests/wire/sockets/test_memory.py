"""Peaks of memory, of a process alone and of a part of its life."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from wire.sockets.memory import PeakMemory, ProcessMemory, peak_rss_bytes

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux keeps a process's peak where others read it"
)

MIB = 2**20

OBEDIENT = """
import sys
for line in sys.stdin:
    held = bytearray(int(line))
    held[::4096] = bytes(len(held[::4096])).replace(b"\\0", b"x")
    del held
    print("done", flush=True)
"""


class Obedient:
    """A process that holds as much memory as it is told, and lets it go."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def hold(self, size_bytes: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{size_bytes}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture
def obedient() -> Iterator[Obedient]:
    command = [sys.executable, "-I", "-c", OBEDIENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Obedient(process)
        assert process.stdin is not None
        process.stdin.close()


def test_a_spike_between_two_looks_is_in_the_peak(obedient: Obedient) -> None:
    before = peak_rss_bytes(obedient.pid)
    obedient.hold(500 * MIB)
    after = peak_rss_bytes(obedient.pid)
    assert before is not None
    assert after is not None
    assert before < 100 * MIB
    assert 500 * MIB <= after < 600 * MIB


def test_a_process_that_a_large_one_started_does_not_have_its_peak() -> None:
    """What `ru_maxrss` would say: a child begins with the peak of the process that it was split off from."""
    parent = """
import subprocess, sys
ballast = bytearray(2**30)
ballast[::4096] = bytes(2**18).replace(b"\\0", b"x")
child = "from wire.sockets.memory import peak_rss_bytes; print(peak_rss_bytes())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout)
"""
    told = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True, timeout=60)
    assert 2 * MIB < int(told.stdout) < 100 * MIB


def test_each_part_has_its_own_peak_and_the_whole_keeps_the_largest(obedient: Obedient) -> None:
    memory = PeakMemory(lambda: obedient.pid, every_s=0.0)
    if not ProcessMemory(obedient.pid).forget_peak():
        pytest.skip("a process's peak may not be forgotten here")
    obedient.hold(300 * MIB)
    assert memory.take_bytes() is None
    obedient.hold(200 * MIB)
    first = memory.take_bytes()
    obedient.hold(20 * MIB)
    second, overall = memory.take_bytes(), memory.overall_bytes()
    assert first is not None
    assert second is not None
    assert overall is not None
    assert second < 100 * MIB < 200 * MIB <= first < 300 * MIB <= overall


def test_where_a_peak_cannot_be_forgotten_that_of_a_part_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMemory, "forget_peak", lambda process: False)
    memory = PeakMemory(lambda: "self", every_s=0.0)
    assert memory.take_bytes() is memory.take_bytes() is None
    assert (memory.overall_bytes() or 0) > MIB


def test_a_process_that_is_not_there_has_no_peak() -> None:
    memory = PeakMemory(lambda: None, every_s=0.0)
    assert memory.take_bytes() is memory.take_bytes() is memory.overall_bytes() is None
    assert not ProcessMemory(2**30).forget_peak()


def num_proc_files() -> int:
    """Return how many files under /proc are open here: threads of earlier tests may open and close others."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{number}").startswith("/proc/")
    return found


def test_of_a_process_that_has_ended_nothing_is_known_and_its_files_are_let_go(obedient: Obedient) -> None:
    gc.collect()  # what earlier tests have left open is not closed meanwhile
    before = num_proc_files()
    pids: list[int | None] = [obedient.pid]
    memory = PeakMemory(lambda: pids[-1], every_s=0.0)
    assert num_proc_files() == before + 2
    first = memory.take_bytes(), memory.overall_bytes()
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as ended:
        memory_of_ended = ProcessMemory(ended.pid)
        ended.wait(60)
        assert memory_of_ended.peak_bytes() is None
        assert not memory_of_ended.forget_peak()
    del memory_of_ended
    pids.append(None)
    assert memory.take_bytes() is None
    assert memory.overall_bytes() == first[1]
    assert num_proc_files() == before


def test_a_peak_is_looked_at_only_now_and_then_and_none_is_missed(obedient: Obedient) -> None:
    memory = PeakMemory(lambda: obedient.pid, every_s=60.0)
    if not ProcessMemory(obedient.pid).forget_peak():
        pytest.skip("a process's peak may not be forgotten here")
    memory.take_bytes()
    assert memory.take_bytes() is not None
    obedient.hold(200 * MIB)
    assert memory.take_bytes() is None
    obedient.hold(20 * MIB)
    assert (memory.overall_bytes() or 0) >= 200 * MIB
