"""Nothing of a run speaks to anybody but its own processes."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from tests.chaos.netns import loopback_traffic, num_astray, own_loopback
from tests.integration.processes import WAIT_S, Processes
from wire.exit_codes import ExitCode


@pytest.mark.slow
@pytest.mark.parametrize("command", ["loopback", "simulate"])
def test_a_run_stays_on_this_machine(processes: Processes, command: str) -> None:
    """The one of `make demo`, with all the libraries that it takes, where every way leads back here."""
    for needed in ("torch", "sklearn"):
        pytest.importorskip(needed)
    with own_loopback():
        run = processes.coordinator(command, "--set", "run.num_rounds=1")
        assert run.wait(3 * WAIT_S) == ExitCode.FINISHED
        assert num_astray() == 0
        assert (loopback_traffic()[0] > 0) == (command == "loopback")


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")])
def test_a_word_to_elsewhere_is_seen(family: int, address: str, kind: int) -> None:
    if family == socket.AF_INET6 and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with own_loopback():
        before = num_astray()
        with socket.socket(family, kind) as way, contextlib.suppress(OSError):
            way.connect((address, 9))
        assert num_astray() == before + 1


def test_a_question_for_a_name_is_seen() -> None:
    with own_loopback():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.sendto(b"?", ("127.0.0.53", 53))
        assert num_astray() == 1
