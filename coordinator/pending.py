"""What is yet to be written to the store: it waits a little, so that one commit takes more along.

Accepted updates wait for their exchange's close, which mostly takes them along. A close waits for the next opening,
with which it becomes durable. In memory nothing becomes durable, so openings wait as well, and an update that was
accepted is as safe as it will ever be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.store import Store, StoredUpdate

FLUSH_AFTER_S = 0.05
"""How long anything may wait."""

Callback = Callable[[], None]


class Pending:
    """What waits, on the running event loop."""

    def __init__(self, store: Store, in_memory: bool) -> None:
        self._store = store
        self._in_memory = in_memory
        self._updates: list[tuple[StoredUpdate, Callback]] = []
        self._writes: list[Callback] = []
        self._timer: asyncio.TimerHandle | None = None

    def put_update(self, update: StoredUpdate, on_durable: Callback) -> None:
        """Write an update of the open exchange before long, unless `take_updates` comes first."""
        if self._in_memory:
            on_durable()
            on_durable = _nothing
        self._updates.append((update, on_durable))
        self._flush_soon()

    def put(self, write: Callback) -> None:
        """Call this inside a transaction before long, after what was put before."""
        self._writes.append(write)
        self._flush_soon()

    def take_updates(self) -> list[tuple[StoredUpdate, Callback]]:
        """Return the updates that wait, which do so no more."""
        if not self._writes:
            self._cancel()
        updates, self._updates = self._updates, []
        return updates

    def flush_updates(self) -> None:
        """Write all that waits now, if there are updates that no close has taken along."""
        if self._updates:
            self.flush()

    def flush(self) -> None:
        """Write all that waits, now."""
        self._cancel()
        writes, self._writes = self._writes, []
        if writes:
            with self._store.together():
                for write in writes:
                    write()
        if updates := self.take_updates():
            self._store.put_updates([update for update, _ in updates], call_all(updates))

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_AFTER_S, self.flush)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def call_all(updates: list[tuple[StoredUpdate, Callback]]) -> Callback:
    """Return a callback that calls those of all updates."""

    def call() -> None:
        for _, callback in updates:
            callback()

    return call


def _nothing() -> None:
    """Stand for a callback that has been called."""
