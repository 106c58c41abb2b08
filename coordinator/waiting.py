"""Telling people whom and what a run waits for, so that no wait looks like a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from coordinator.rounds import Phase, Rounds

FIRST_NOTE_S = 3.0
"""People are told after this time, and then every NOTE_EVERY_S."""

NOTE_EVERY_S = 30.0


async def tell_waiting(machine: Rounds, here: Callable[[], Collection[str]], note: Callable[[str], None]) -> None:
    """Tell soon after the start, on a change of whom is waited for, and now and then; never returns."""
    now = asyncio.get_running_loop().time
    told, told_at = "", now() - NOTE_EVERY_S
    while True:
        await asyncio.sleep(FIRST_NOTE_S)
        text = machine.waiting_for(here())
        changed = text != told and machine.phase is Phase.WAITING
        if changed or (now() - told_at >= NOTE_EVERY_S and machine.phase is not Phase.OVER):
            note(text)
            told, told_at = text, now()
