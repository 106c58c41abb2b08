"""Signals while a process computes, and while the event loop of a daemon is being closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wire.exit_codes import ExitCode

DAEMON = """
import asyncio, os, signal, sys
from wire.sockets.signals import SIGNALS, run_daemon

async def linger():
    try:
        await asyncio.sleep(60)
    finally:  # the loop is being closed
        for number in SIGNALS:
            os.kill(os.getpid(), number)

async def main():
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, print, "heard", number.name)
    loop.create_task(linger())
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.01)
    return 7

before = signal.getsignal(signal.SIGINT)
print(run_daemon(main()), signal.getsignal(signal.SIGINT) is before)
"""


def test_signals_are_heard_until_the_daemon_has_ended_and_disturb_nothing_after_that() -> None:
    ran = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.splitlines(), ran.stderr) == (0, ["heard SIGTERM", "7 True"], "")


COMPUTER = """
import os, signal, sys, time
from wire.sockets import signals

signals.LAST_WORK_S = float(sys.argv[1])
reasons = []
with signals.ended_by_signals(reasons.append, "nothing is lost"):
    for number in (signal.SIGINT, signal.SIGTERM):  # the second one of somebody who is impatient
        os.kill(os.getpid(), number)
        time.sleep(0.02)
    print(*reasons, sep=", ", flush=True)
    time.sleep(float(sys.argv[2]))
print("left in order")
"""


HEARD = "stopped by SIGINT, stopped by SIGTERM\n"


def computed(last_work_s: float, work_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMPUTER, str(last_work_s), str(work_s)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_signal_is_heard_in_the_midst_of_a_computation() -> None:
    ran = computed(last_work_s=60, work_s=0)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{HEARD}left in order\n", "")


def test_a_computation_that_takes_no_note_is_cut_off() -> None:
    ran = computed(last_work_s=0.5, work_s=60)
    assert (ran.returncode, ran.stdout) == (ExitCode.INTERRUPTED, HEARD)
    assert ran.stderr == "stopped by SIGINT: nothing is lost\n"


HUNG_UP = """
import os, signal, sys
from wire.sockets.command import run_command
from wire.sockets.signals import ending, ended_by_signals

signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))

def command():
    reasons = []
    if sys.argv[2] == "computes":
        with ended_by_signals(reasons.append, "nothing is lost"):
            os.kill(os.getpid(), signal.SIGHUP)
    else:
        os.kill(os.getpid(), signal.SIGHUP)
    print(*reasons, signal.SIGHUP in ending(), flush=True)
    return 0

sys.exit(run_command("it", command))
"""


@pytest.mark.parametrize(
    ("before", "how", "ended"),
    [
        ("SIG_DFL", "begins", (ExitCode.INTERRUPTED, "")),
        ("SIG_DFL", "computes", (ExitCode.FINISHED, "stopped by SIGHUP True\n")),
        ("SIG_IGN", "begins", (ExitCode.FINISHED, "False\n")),
        ("SIG_IGN", "computes", (ExitCode.FINISHED, "False\n")),
    ],
)
def test_a_terminal_that_goes_away_ends_what_does_not_ignore_it(
    before: str, how: str, ended: tuple[ExitCode, str]
) -> None:
    command = [sys.executable, "-c", HUNG_UP, before, how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (*ended, "")
