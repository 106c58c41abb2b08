"""What each client's connections have come to, as the kernel counts it: dead ones and those before a restart included.

A connection counts for the client whose hello it brought, from its first byte on. A client also says what it counted
itself, which is compared at the moment of its word; what is under way just then is the difference, and so is what a
client that was killed could not say any more. The kernel's counts die with this process: after a kill go on those that
were stored last, and what the updates that are stored cost, computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from wire.messages import Vitals
from wire.sockets.tcp import Counters

Way = Literal["up", "down"]

MOST = 2**53
"""No count or clock that a client tells is larger."""


class LinkCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One client's connections, all added up.

    Attributes:
        up_bytes: TCP payload from the client, each byte once.
        down_bytes: the same to the client.
        computed_bytes: the part of both that was computed from messages, after a restart.
        num_retransmits: segments to the client that were sent again.
        num_connections: how many connections it has had.
        rtt_s: the last round-trip time, smoothed.
        own_up_bytes: what the client has counted itself, None if it has not said so.
        own_down_bytes: the same of what came to it.
        own_num_retransmits: segments that it sent again.
        up_difference_bytes: how much more was counted here, when the client said so.
        down_difference_bytes: the same to the client.
        clock_skew_s: how far the client's clock is ahead of this one's, short of the time that a message travels.
        word: the last that the client's process said.
        lost_round: the round whose state it says that it does not find, 0 if none.
        num_states_not_found: how often it has said so: the state is lost, or the store is older than the client.
    """

    up_bytes: int = 0
    down_bytes: int = 0
    computed_bytes: int = 0
    num_retransmits: int = 0
    num_connections: int = 0
    rtt_s: float | None = None
    own_up_bytes: int | None = None
    own_down_bytes: int | None = None
    own_num_retransmits: int | None = None
    up_difference_bytes: int | None = None
    down_difference_bytes: int | None = None
    clock_skew_s: float | None = None
    word: Vitals = Vitals()
    lost_round: int = 0
    num_states_not_found: int = 0

    def with_connection(self, counters: Counters) -> LinkCounts:
        """Return this and one connection more."""
        return msgspec.structs.replace(
            self,
            up_bytes=self.up_bytes + counters.received_bytes,
            down_bytes=self.down_bytes + counters.sent_bytes,
            num_retransmits=self.num_retransmits + counters.num_retransmits,
            num_connections=self.num_connections + 1,
            rtt_s=counters.rtt_s or self.rtt_s,
        )

    def with_computed(self, way: Way, computed_bytes: int) -> LinkCounts:
        """Return this and a message more, with its computed cost."""
        return msgspec.structs.replace(
            self,
            up_bytes=self.up_bytes + (computed_bytes if way == "up" else 0),
            down_bytes=self.down_bytes + (computed_bytes if way == "down" else 0),
            computed_bytes=self.computed_bytes + computed_bytes,
        )

    def with_not_found(self, lost_round: int) -> LinkCounts:
        """Return this and which round's state is not found now, 0 if none; the same one again is no news."""
        is_news = lost_round not in (0, self.lost_round)
        return msgspec.structs.replace(
            self, lost_round=lost_round, num_states_not_found=self.num_states_not_found + is_news
        )

    def with_word(self, word: Vitals, clock_skew_s: float) -> LinkCounts:
        """Return this and what the client says now; a figure smaller than before is that of a new process."""
        last = self.word if word.sent_bytes >= self.word.sent_bytes else Vitals()
        skew_s = clock_skew_s if self.clock_skew_s is None else max(self.clock_skew_s, clock_skew_s)
        return msgspec.structs.replace(
            self,
            own_up_bytes=_grown(self.own_up_bytes, word.sent_bytes - last.sent_bytes),
            own_down_bytes=_grown(self.own_down_bytes, word.received_bytes - last.received_bytes),
            own_num_retransmits=_grown(self.own_num_retransmits, word.num_retransmits - last.num_retransmits),
            clock_skew_s=skew_s if word.clock_s else self.clock_skew_s,
            word=word,
        )


class StoredLinks(msgspec.Struct, frozen=True):
    """The links of all clients at one moment, from which a process of the run goes on.

    That is when it opened its first exchange, or the first one after a failed round; when an exchange was closed; or
    when the run left in order. After a kill are missing what went between two exchanges and, of the one that was open,
    all but its tasks and updates: those are computed.

    Attributes:
        links: by client id.
        counted: the tasks and updates of the exchange that was open when the run left, each its client and its way.
    """

    links: dict[str, LinkCounts] = {}
    counted: list[tuple[str, Way]] = []


class Links:
    """The links of all clients, by client id."""

    def __init__(self, stored: StoredLinks, counters: Callable[[bytes], Counters | None]) -> None:
        """Go on from what is stored; `counters` is the door's."""
        self._ended = dict(stored.links)
        self._counted = set(stored.counted)
        self._counters = counters
        self._routes: dict[str, set[bytes]] = {}
        self._clients: dict[bytes, str] = {}

    def joined(self, client: str, route: bytes) -> None:
        """Count a connection for the client that it has said hello for; the first hello holds."""
        if route not in self._clients and self._counters(route) is not None:
            self._clients[route] = client
            self._routes.setdefault(client, set()).add(route)

    def ended(self, route: bytes, counters: Counters | None) -> None:
        """Keep what a connection came to."""
        client = self._clients.pop(route, None)
        if client is not None:
            self._routes[client].discard(route)
            if counters is not None:
                self._ended[client] = self._ended.get(client, LinkCounts()).with_connection(counters)

    def exchange_opened(self) -> None:
        """Begin an exchange; one that was open before this process began is not begun again."""
        self._counted.clear()

    def passed(self, client: str, way: Way, before_bytes: int | None) -> None:
        """Note a task or an update of the open exchange.

        One that went before this process began is counted with its computed cost, `before_bytes`, unless it is in what
        was stored; of one that the kernel counts it is None.
        """
        if before_bytes is not None and (client, way) not in self._counted:
            self._ended[client] = self._ended.get(client, LinkCounts()).with_computed(way, before_bytes)
        self._counted.add((client, way))

    def not_found(self, client: str, lost_round: int) -> None:
        """Take which round's state a client says that it does not find, 0 if none."""
        self._ended[client] = self._ended.get(client, LinkCounts()).with_not_found(lost_round)

    def told(self, client: str, word: Vitals, message_bytes: int) -> None:
        """Take what a client has counted itself, in a message of so many bytes, which it could not count yet."""
        here = self.link(client)
        if here is None or not _is_plausible(word):
            return
        word = msgspec.structs.replace(word, sent_bytes=word.sent_bytes + message_bytes)
        kept = self._ended.get(client, LinkCounts()).with_word(word, word.clock_s - time.time())
        assert kept.own_up_bytes is not None
        assert kept.own_down_bytes is not None
        self._ended[client] = msgspec.structs.replace(
            kept,
            up_difference_bytes=here.up_bytes - kept.own_up_bytes,
            down_difference_bytes=here.down_bytes - kept.own_down_bytes,
        )

    def link(self, client: str) -> LinkCounts | None:
        """Return what a client's connections have come to by now, None if the kernel has never said."""
        link = self._ended.get(client)
        for route in self._routes.get(client, ()):
            counters = self._counters(route)
            if counters is not None:
                link = (link or LinkCounts()).with_connection(counters)
        return link if link is not None and link.num_connections else None

    def at_leaving(self) -> StoredLinks:
        """Return all, to be stored as the run leaves in order."""
        links = self.all()
        return StoredLinks(links, sorted((client, way) for client, way in self._counted if client in links))

    def all(self) -> dict[str, LinkCounts]:
        """Return the links of all clients of which the kernel has said anything."""
        found = {client: self.link(client) for client in sorted({*self._ended, *self._routes})}
        return {client: link for client, link in found.items() if link is not None}


def _is_plausible(word: Vitals) -> bool:
    """Say whether these can be counts: who has spoken has sent something."""
    told = (word.sent_bytes, word.received_bytes, word.num_retransmits, word.gpu_peak_bytes, word.clock_s)
    return word.sent_bytes > 0 and all(0 <= figure <= MOST for figure in told)


def _grown(total: int | None, growth: int) -> int:
    return min(MOST, (total or 0) + growth)
