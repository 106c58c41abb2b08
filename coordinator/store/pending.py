"""What is yet to be written to the store: it waits a little, so that one commit takes more along.

Accepted updates wait for their exchange's close, which mostly takes them along. A close waits for the next opening,
with which it becomes durable. In memory nothing becomes durable, so openings wait as well, and an update that was
accepted is as safe as it will ever be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coordinator.delay import Delay
from coordinator.store.store import Store, StoredUpdate

FLUSH_AFTER_S = 0.05
"""How long anything may wait."""

Callback = Callable[[], None]

Unwritten = tuple[StoredUpdate, Callback | None]
"""An update, and what is called when it is durable if that is yet to come."""


class Pending:
    """What waits, on the running event loop."""

    def __init__(self, store: Store, in_memory: bool) -> None:
        self._store = store
        self._in_memory = in_memory
        self._updates: list[Unwritten] = []
        self._writes: list[Callback] = []
        self._flushing = Delay(FLUSH_AFTER_S, self.flush)

    def put_update(self, update: StoredUpdate, on_durable: Callback) -> None:
        """Write an update of the open exchange before long, unless `take_updates` comes first."""
        if self._in_memory:
            on_durable()
        self._updates.append((update, None if self._in_memory else on_durable))
        self._flushing.begin()

    def put(self, write: Callback) -> None:
        """Call this inside a transaction before long, after what was put before."""
        self._writes.append(write)
        self._flushing.begin()

    def take_updates(self) -> list[Unwritten]:
        """Return the updates that wait, which do so no more."""
        if not self._writes:
            self._flushing.end()
        updates, self._updates = self._updates, []
        return updates

    def flush_updates(self) -> None:
        """Write all that waits now, if there are updates that no close has taken along."""
        if self._updates:
            self.flush()

    def flush(self) -> None:
        """Write all that waits, now."""
        self._flushing.end()
        writes, self._writes = self._writes, []
        if writes:
            with self._store.together():
                for write in writes:
                    write()
        if updates := self.take_updates():
            self._store.put_updates([update for update, _ in updates], call_all(updates))


def call_all(updates: Iterable[Unwritten]) -> Callback | None:
    """Return a callback that calls those of all updates, None if there are none."""
    callbacks = [callback for _, callback in updates if callback is not None]

    def call() -> None:
        for callback in callbacks:
            callback()

    return call if callbacks else None
