"""Who may send a large uplink now: at most `limit` at a time, in the order of asking. Pure."""

from __future__ import annotations

from collections import deque

MAX_OPEN_GRANTS = 4
"""Large uplinks in flight at once, so that the coordinator's memory does not grow with the number of clients."""


class Grants:
    """Grants by client id; each method returns the clients whose grant is to be sent now."""

    def __init__(self, limit: int = MAX_OPEN_GRANTS) -> None:
        self._limit = limit
        self._open: set[str] = set()
        self._queue: deque[str] = deque()

    def offer(self, client: str) -> list[str]:
        """A client asks; asking again while its grant is open repeats the grant."""
        if client in self._open:
            return [client]
        if client not in self._queue:
            self._queue.append(client)
        return self._fill()

    def release(self, client: str) -> list[str]:
        """A client's uplink came, and is on disk if it goes there, or the client left or was refused."""
        self._open.discard(client)
        if client in self._queue:
            self._queue.remove(client)
        return self._fill()

    def close(self) -> list[str]:
        """The exchange has closed: all grants are void; return who was still waiting for one."""
        waiting = list(self._queue)
        self._open.clear()
        self._queue.clear()
        return waiting

    def _fill(self) -> list[str]:
        granted = []
        while self._queue and len(self._open) < self._limit:
            client = self._queue.popleft()
            self._open.add(client)
            granted.append(client)
        return granted
