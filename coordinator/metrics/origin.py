"""Where a run's first global state comes from, if another run has made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """The global state that a run was started from (`--init-from`): of which run and round, its hash, what it knows."""

    run_id: str
    round: int
    global_hash: str
    classes: list[int] = []


def origin_in_words(summary: Mapping[str, Any]) -> str:
    """Return what a run was started from, by its summary; nothing if that is its method's own initial state."""
    found = summary.get("init_from")
    return f"round {found['round']} of {found['run_id']}" if found else ""
