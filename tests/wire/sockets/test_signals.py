"""Signals while the event loop of a daemon is being closed."""

from __future__ import annotations

import subprocess
import sys

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
