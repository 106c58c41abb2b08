"""A network of one's own: a Linux network namespace whose loopback is as slow as a test wants it, and counts bytes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def slow_loopback(rate: str) -> Iterator[None]:
    """Let this thread, and the processes that it starts, have a loopback of this rate (as `tc` writes it).

    Skips the test where that is not allowed: it needs Linux, root and `tc`.
    """
    if shutil.which("tc") is None:
        pytest.skip("a slow loopback needs tc")
    with own_loopback():
        shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", "lo", *shape], check=True, timeout=10)
        yield


@contextlib.contextmanager
def own_loopback(mtu: int = 1500) -> Iterator[None]:
    """Let this thread, and the processes that it starts, have a loopback of their own, with packets of at most `mtu`.

    Skips the test where that is not allowed: it needs Linux and root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if shutil.which("ip") is None or not hasattr(libc, "unshare"):
        pytest.skip("a loopback of one's own needs Linux and ip")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            pytest.skip(f"a loopback of one's own needs root: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up", "mtu", str(mtu)], check=True, timeout=10)
            yield
        finally:
            assert libc.setns(before, CLONE_NEWNET) == 0
    finally:
        os.close(before)


def tcp_payload_bytes() -> int:
    """Return the TCP payload that has gone over this thread's loopback: all bytes without the headers.

    A packet has 20 bytes of IP and, with time stamps, 32 of TCP, and the two ends' first ones 8 more.
    """
    num_bytes, num_packets = loopback_traffic()
    opened = next(values for head, values in _snmp() if head == "Tcp")
    return num_bytes - num_packets * (20 + 32) - 2 * 8 * int(opened["ActiveOpens"])


def loopback_traffic() -> tuple[int, int]:
    """Return the bytes, with IP's headers, and the packets that have gone over this thread's loopback."""
    counted = dict(line.split(":") for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:])
    told = next(told for name, told in counted.items() if name.strip() == "lo")
    num_bytes, num_packets, *_ = map(int, told.split())
    return num_bytes, num_packets


def num_astray() -> int:
    """Return what this thread's network has been asked for that is none of ours.

    That is all that it had no way for, and every datagram, such as a question for a name: we send none.
    """
    counted, six = dict(_snmp()), Path("/proc/thread-self/net/snmp6")
    of_six = dict(line.split() for line in six.read_text().splitlines()) if six.exists() else {}
    named = (of_six.get(name, "0") for name in ("Ip6OutNoRoutes", "Udp6OutDatagrams"))
    return sum(map(int, (counted["Ip"]["OutNoRoutes"], counted["Udp"]["OutDatagrams"], *named)))


def _snmp() -> Iterator[tuple[str, dict[str, str]]]:
    lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        head, _, rest = names.partition(":")
        yield head, dict(zip(rest.split(), values.partition(":")[2].split(), strict=True))
