"""A network of one's own: a Linux network namespace whose loopback is as slow as a test wants it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def slow_loopback(rate: str) -> Iterator[None]:
    """Let this thread, and the processes that it starts, have a loopback of this rate (as `tc` writes it).

    Skips the test where that is not allowed: it needs Linux, root and `tc`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if shutil.which("tc") is None or not hasattr(libc, "unshare"):
        pytest.skip("a slow loopback needs Linux and tc")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            pytest.skip(f"a slow loopback needs root: {os.strerror(ctypes.get_errno())}")
        try:
            shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
            subprocess.run(["ip", "link", "set", "lo", "up", "mtu", "1500"], check=True, timeout=10)
            subprocess.run(["tc", "qdisc", "add", "dev", "lo", *shape], check=True, timeout=10)
            yield
        finally:
            assert libc.setns(before, CLONE_NEWNET) == 0
    finally:
        os.close(before)
