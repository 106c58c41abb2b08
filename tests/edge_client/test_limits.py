"""What a process may take, seen at a real one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from edge_client.config import LimitsSection
from edge_client.limits import MEBIBYTE, error_in_words, limit, told_of_lack

ALLOCATE = "input(); bytearray(int(input()) << 20); print('had it')"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Start a process that allocates as many mebibytes as it is told."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-I", "-c", ALLOCATE], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as it:
        yield it
        it.kill()


@pytest.mark.parametrize(("wanted_mib", "answer"), [(16, "had it"), (400, "MemoryError")])
def test_memory_is_had_up_to_the_limit(process: subprocess.Popen[str], wanted_mib: int, answer: str) -> None:
    limit(process.pid, LimitsSection(memory_mib=200))
    assert resource.prlimit(process.pid, resource.RLIMIT_DATA) == (200 * MEBIBYTE, 200 * MEBIBYTE)
    assert answer in "".join(process.communicate(f"\n{wanted_mib}\n", timeout=20))


def test_niceness_is_given_and_never_taken(process: subprocess.Popen[str]) -> None:
    limit(process.pid, LimitsSection(nice=19))
    limit(process.pid, LimitsSection(nice=5))
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19


def test_a_process_that_is_gone_is_no_fault_of_its_limits(process: subprocess.Popen[str]) -> None:
    process.communicate("\n1\n", timeout=20)
    limit(process.pid, LimitsSection(nice=19, memory_mib=200))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 7.45 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ImportError("libtorch_cuda.so: failed to map segment from shared object"),
    ],
)
def test_want_of_memory_is_told_with_the_limit_if_there_is_one(error: Exception) -> None:
    assert error_in_words(error, 300) == f"ran out of [limits] memory_mib = 300: {type(error).__name__}: {error}"
    assert error_in_words(error, 0) == f"{type(error).__name__}: {error}"


def test_other_errors_have_nothing_to_do_with_it() -> None:
    assert error_in_words(RuntimeError("shapes differ"), 300) == "RuntimeError: shapes differ"


def test_what_cannot_be_loaded_for_want_of_memory_is_not_to_be_installed() -> None:
    cause = "[model] name = 'cnn' needs torch, which cannot be loaded: _C.so: failed to map segment from shared object"
    told = told_of_lack(f"{cause}; pip install 'protoedge[train]'", 200)
    assert told == f"ran out of [limits] memory_mib = 200: {cause}"


@pytest.mark.parametrize(
    "line",
    [
        "MemoryError",
        "RuntimeError: can't start new thread",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "libpython3.11.so.1.0: cannot map zero-fill pages",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_of_what_a_process_said_the_line_is_taken_that_tells_of_want_of_memory(line: str) -> None:
    died = f"ended with exit code 1; the last lines:\nTraceback (most recent call last):\n{line}\nexiting"
    assert told_of_lack(died, 40) == f"ran out of [limits] memory_mib = 40: {line}"
    assert told_of_lack(died, 0) == ""
    assert told_of_lack("ended with signal SIGKILL", 40) == ""
