"""When this device may train: inside windows of the day, while a command agrees, and not while it is paused by hand.

The clock is looked at again and again rather than a time computed to sleep until, so a clock that is set, or put an
hour on, is followed within `LOOK_EVERY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable

from edge_client.config import ScheduleSection
from edge_client.windows import read_window

LOOK_EVERY_S = 5.0
"""How often it is asked whether the device may train."""

KILLED_S = 1.0
"""How long a hook may take to be gone once it was killed."""


class Schedule:
    """Tells what there is to wait for before the next training step, nothing if there is nothing."""

    def __init__(
        self,
        section: ScheduleSection,
        tell: Callable[[str], None],
        local_time: Callable[[], time.struct_time] = time.localtime,
    ) -> None:
        """Begin; `tell` is given each answer, whether it is new or not."""
        self._section = section
        self._windows = [window for text in section.windows if (window := read_window(text))]
        self._tell = tell
        self._local_time = local_time
        self._is_paused = False
        self._left_at = ""
        self._hooks_no = "[schedule] hook, which was not asked yet" if section.hook else ""
        self._ask_at = 0.0

    async def watch(self) -> None:
        """Ask for ever, where there is anything to ask."""
        while self._windows or self._section.hook:
            self.look()
            if self._section.hook and time.monotonic() >= self._ask_at and not self._outside():
                self._hooks_no = await self._ask_hook()
                self._ask_at = time.monotonic() + self._section.hook_every_s
                self.look()
            await asyncio.sleep(min(LOOK_EVERY_S, self._section.hook_every_s))

    def pause(self, is_paused: bool) -> None:
        """Wait for nothing but being told to go on, or go on."""
        self._is_paused = is_paused
        self.look()

    def look(self) -> None:
        """Tell what there is to wait for now."""
        by_hand = "SIGUSR2, as SIGUSR1 paused it" if self._is_paused else ""
        self._tell(by_hand or self._outside() or self._hooks_no)

    def _outside(self) -> str:
        now = self._local_time()
        minute = now.tm_hour * 60 + now.tm_min
        if not self._windows or any(window.holds(minute) for window in self._windows):
            self._left_at = ""
            return ""
        self._left_at = self._left_at or f"{now.tm_hour:02d}:{now.tm_min:02d}"
        return f"[schedule] windows = {', '.join(self._section.windows)}; it was {self._left_at} when this began"

    async def _ask_hook(self) -> str:
        """Run the hook and return why it keeps the device from training, nothing if it does not."""
        quiet = asyncio.subprocess.DEVNULL
        try:
            words = shlex.split(self._section.hook)
            hook = await asyncio.create_subprocess_exec(
                *words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
        except (OSError, ValueError) as error:
            return f"[schedule] hook, which cannot be run: {error}"
        try:
            code = await asyncio.wait_for(hook.wait(), self._section.hook_timeout_s)
        except asyncio.TimeoutError:
            return f"[schedule] hook, which took longer than hook_timeout_s = {self._section.hook_timeout_s:g}"
        finally:
            await _end(hook)
        return f"[schedule] hook, which says no (exit code {code})" if code else ""


async def _end(hook: asyncio.subprocess.Process) -> None:
    """Leave nothing behind of a hook that is not over."""
    if hook.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(hook.pid, signal.SIGKILL)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hook.wait(), KILLED_S)
