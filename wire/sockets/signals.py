"""How a signal ends a daemon: in time whatever it computes, and not while its event loop is being closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from wire.exit_codes import ExitCode

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

SIGNALS = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)

STDERR = 2

LAST_WORK_S = 2.5
"""How long a process that computes in its main thread may go on after a signal that ends it."""


def ending() -> tuple[signal.Signals, ...]:
    """Return the signals that end this process in order: SIGHUP is none where it is ignored, as `nohup` has it."""
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(number for number in ENDING if number != signal.SIGHUP or not is_kept)


@contextlib.contextmanager
def ended_by_signals(end: Callable[[str], None], last_words: str) -> Iterator[None]:
    """Let a signal end what this process computes in its main thread, event loop or not.

    `end` is called with the reason in the midst of whatever the thread does, so it may do no more than take note. If
    it still computes `LAST_WORK_S` later, because nothing looked at that note, the process says `last_words` and is
    gone: all that it must not lose has to be durable, and its children have to end by themselves.
    """
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    is_done = threading.Event()
    watch = (heard, is_done, last_words)
    threading.Thread(target=_end_after_signal, args=watch, name="signal-watch", daemon=True).start()
    wakeup = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        with _handlers_kept():
            for number in ending():
                signal.signal(number, lambda number, _: end(_reason(number)))
            yield
    finally:
        is_done.set()
        signal.set_wakeup_fd(wakeup)
        os.close(tell)


def _end_after_signal(heard: int, is_done: threading.Event, last_words: str) -> None:
    """End the process some time after a signal, of which the interpreter tells while its main thread computes."""
    with open(heard, "rb", buffering=0) as told:
        while (number := told.read(1)) and number[0] not in ENDING:
            pass
        if number and not is_done.wait(LAST_WORK_S):
            with contextlib.suppress(OSError):  # nobody listens
                os.write(STDERR, f"{_reason(number[0])}: {last_words}\n".encode())
            os._exit(ExitCode.INTERRUPTED)


def _reason(number: int) -> str:
    return f"stopped by {signal.Signals(number).name}"


def run_daemon(main: Coroutine[Any, Any, T]) -> T:
    """Run a daemon as `asyncio.run` does; between its end and that of its loop signals are ignored.

    A loop that is being closed has no more use for a signal, and says so in a traceback.
    """

    async def run() -> T:
        try:
            return await main
        finally:
            ignore_signals()

    with _handlers_kept():
        return asyncio.run(run())


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Have the signals handled afterwards as they were before."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
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
