"""The link to the coordinator and what is due on it, as a pure state machine; see `session`."""

from __future__ import annotations

from enum import Enum, auto

from edge_client.reconnect import Backoff
from wire.limits import SILENT_HEARTBEATS

JOIN_S = 5.0
"""How long nothing may come before the welcome; then the connection is tried anew."""

MAX_JOIN_S = 20.0
"""How long a welcome may take, whatever comes before it: on a slow link it is half a dozen round trips away."""

MAX_BROKEN_OFF = 3
"""So many handshakes in a row that the coordinator breaks off mean that it has another key, if it never let us in."""

BY_NETWORK = "the network cuts it, or the coordinator, which has let this client in before, has other keys by now"

NO_WELCOME = "no welcome from the coordinator (`edge-client doctor` says who listens there)"


class Link(Enum):
    """The link to the coordinator."""

    DOWN = auto()
    JOINING = auto()
    UP = auto()


class Due(Enum):
    """What the time has come for: to connect, to miss a welcome, to miss any word, to let the coordinator hear one."""

    ATTEMPT = auto()
    WELCOME = auto()
    WORD = auto()
    PING = auto()


class LinkClock:
    """Where the link is and since when, and whether it was ever up. Times are monotonic seconds."""

    def __init__(self, seed: int, was_up: bool = False) -> None:
        self.state = Link.DOWN
        self.was_up = was_up
        self.heartbeat_s = 0.0
        self.why_down = ""
        self._reasons: set[str] = set()
        self._num_broken_off = 0
        self._backoff = Backoff(seed)
        self._retry_at: float | None = None
        self._joined_by = self._join_ends = 0.0
        self._heard_at = 0.0
        self._ping_at = 0.0

    @property
    def _silent_at(self) -> float:
        return self._heard_at + SILENT_HEARTBEATS * self.heartbeat_s

    def next_wakeup(self) -> float | None:
        """Return when something is due next."""
        if self.state is Link.UP:
            return min(self._ping_at, self._silent_at)
        return self._joined_by if self.state is Link.JOINING else self._retry_at

    def due(self, at: float) -> Due | None:
        """Return what is due now."""
        if self.state is Link.DOWN:
            return Due.ATTEMPT if self._retry_at is None or at >= self._retry_at else None
        if self.state is Link.JOINING:
            return Due.WELCOME if at >= self._joined_by else None
        if at >= self._silent_at:
            return Due.WORD
        return Due.PING if at >= self._ping_at else None

    def join(self, at: float) -> None:
        """A connection is being made."""
        self.state = Link.JOINING
        self._joined_by, self._join_ends = at + JOIN_S, at + MAX_JOIN_S

    def up(self, heartbeat_s: float, at: float) -> None:
        """The coordinator has let us in, and wants to hear something so often."""
        self.state, self.was_up = Link.UP, True
        self._backoff.reset()
        self._reasons.clear()
        self._num_broken_off = 0
        self.beat(heartbeat_s, at)

    def beat(self, heartbeat_s: float, at: float) -> None:
        """The coordinator need not hear anything for so long."""
        self.heartbeat_s = heartbeat_s
        self._ping_at = at + heartbeat_s

    def heard(self, at: float) -> None:
        """Something came, or moved, at this time."""
        self._heard_at = max(self._heard_at, at)
        self._joined_by = min(max(self._joined_by, at + JOIN_S), self._join_ends)

    def count_broken_off(self, is_broken_off: bool) -> int:
        """Return how many handshakes in a row the other end has broken off, with this one."""
        self._num_broken_off = self._num_broken_off + 1 if is_broken_off else 0
        return self._num_broken_off

    def down(self, why: str, at: float) -> bool:
        """The link is no more; the next attempt is due after a pause. Return whether `why` is new since it was up."""
        is_news = why not in self._reasons
        self._reasons.add(why)
        self.state, self.why_down = Link.DOWN, why
        self._retry_at = at + self._backoff.next_delay_s()
        return is_news
