"""A daemon's event loop, which no signal disturbs while it is being closed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def run_daemon(main: Coroutine[Any, Any, T]) -> T:
    """Run a daemon as `asyncio.run` does; between its end and that of its loop signals are ignored.

    A loop that is being closed has no more use for a signal, and says so in a traceback.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}

    async def run() -> T:
        try:
            return await main
        finally:
            ignore_signals()

    try:
        return asyncio.run(run())
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Let nothing disturb the last steps, which take a bounded time; an event loop's handlers are taken away."""
    for number in SIGNALS:
        with contextlib.suppress(RuntimeError):  # there is no loop any more
            asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
