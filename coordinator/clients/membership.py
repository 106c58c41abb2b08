"""Who is here, as a pure state machine: events in, instructions out, and no clock of its own.

Theory of operation
-------------------
A client is known by its id; a connection by its route (ZeroMQ's routing id), which dies with the connection. Every
process start draws an incarnation, so that a reconnect and a second process with the same id can be told apart:

    hello of an unknown id                   admitted
    hello of a known id, same incarnation    admitted: the same process on a new connection
    hello of a known id, other incarnation   the older holder is probed. It answers: the newcomer is refused by name.
                                             Silent for PROBE_S or unreachable: the newcomer takes its place, the
                                             latest one if there were several
    hello by a route that has another id     the other id's client is lost: a connection speaks for one client

Only the answer to the probe proves that the older holder lives: what it sent before may come in long after it was
killed. But the answer waits behind a long message on a slow link, and the probe behind another. So while anything comes
in, or the probe has yet to go out, the decision is put off, and nobody is probed twice.

A member that was silent for SILENT_HEARTBEATS heartbeats is lost; a long message on a slow link is not silence, and
what the kernel knows of that is told by `heard`. Whatever comes by a route that no member holds is answered with
`unknown_session`, and the peer says hello again. Being here (heartbeats of the daemon) has nothing to do with making
progress (reports of the trainer).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wire.limits import SILENT_HEARTBEATS

SILENT = "silent"
"""Why a member is lost of whom nothing is heard, before how long that is so."""

PROBE_S = 2.0
"""How long nothing may come of the older holder of an id before the newcomer takes its place."""


class Member(msgspec.Struct):
    """A client that is here, and the connection it speaks through."""

    client: str
    route: bytes
    incarnation: int
    heard_at: float


class Contender(msgspec.Struct, frozen=True):
    """A newcomer with the id of a member that is being probed."""

    client: str
    route: bytes
    incarnation: int
    decided_at: float


class Admit(msgspec.Struct, frozen=True):
    """Welcome this client."""

    client: str
    route: bytes


class RefuseDuplicate(msgspec.Struct, frozen=True):
    """Refuse a newcomer whose id is held by a live client."""

    client: str
    route: bytes


class Probe(msgspec.Struct, frozen=True):
    """Make the holder of this route answer."""

    client: str
    route: bytes


class Lost(msgspec.Struct, frozen=True):
    """This client is no longer here."""

    client: str
    reason: str


Instruction = Admit | RefuseDuplicate | Probe | Lost


class Membership:
    """The state machine. Each method is one event; times are monotonic seconds."""

    def __init__(self, heartbeat_s: float, is_watched: Callable[[str], bool] = lambda client: False) -> None:
        """Begin with nobody; members that somebody else watches are never taken for silent here."""
        self.silence_s = SILENT_HEARTBEATS * heartbeat_s
        self._is_watched = is_watched
        self.members: dict[str, Member] = {}
        self._clients: dict[bytes, str] = {}
        self._contenders: dict[str, Contender] = {}

    def client_at(self, route: bytes) -> str | None:
        """Return the client that speaks through this route, None if nobody does."""
        return self._clients.get(route)

    def routes(self) -> set[bytes]:
        """Return the connections of those who are here, and of those who ask for the id of one."""
        return {*self._clients, *(rival.route for rival in self._contenders.values())}

    def hello(self, client: str, route: bytes, incarnation: int, at: float) -> list[Instruction]:
        """A client asks to take part."""
        found = self._free(route, client, at)
        member, rival = self.members.get(client), self._contenders.get(client)
        if member is None:
            return [*found, self._admit(client, route, incarnation, at)]
        if member.incarnation == incarnation:
            found += self.answered(member.route, at)
            return [*found, self._admit(client, route, incarnation, at)]
        decided_at = rival.decided_at if rival else at + PROBE_S
        self._contenders[client] = Contender(client, route, incarnation, decided_at)
        return found if rival else [*found, Probe(client, member.route)]

    def answered(self, route: bytes, at: float) -> list[Instruction]:
        """An answer came by this route: a probed member has proven itself."""
        self.heard(route, at)
        client = self._clients.get(route)
        rival = self._contenders.pop(client, None) if client is not None else None
        return [RefuseDuplicate(rival.client, rival.route)] if rival else []

    def heard(self, route: bytes, at: float) -> None:
        """A message, or part of one, came by this route at that time."""
        client = self._clients.get(route)
        if client is not None:
            self.members[client].heard_at = max(self.members[client].heard_at, at)
            self._put_off(client, at)

    def still_sending(self, route: bytes, at: float) -> None:
        """What was sent by this route has yet to go out at that time, and with it the probe."""
        client = self._clients.get(route)
        if client is not None:
            self._put_off(client, at)

    def doubtful(self, at: float) -> list[Member]:
        """Return the members that are lost by now, unless something has moved on their connections."""
        unproven = {rival.client for rival in self._contenders.values() if at >= rival.decided_at}
        return [
            member
            for member in self.members.values()
            if (at >= self._silent_at(member) and not self._is_watched(member.client)) or member.client in unproven
        ]

    def unreachable(self, route: bytes, at: float) -> list[Instruction]:
        """A send to this route failed: its connection is gone."""
        return self._lose(route, "its connection is gone", at)

    def goodbye(self, route: bytes, reason: str, at: float) -> list[Instruction]:
        """A client leaves in order."""
        return self._lose(route, f"it left: {reason}", at)

    def barred(self, route: bytes, reason: str, at: float) -> list[Instruction]:
        """This connection may speak no more, neither for a member nor for one who asks to be."""
        self._contenders = {other: rival for other, rival in self._contenders.items() if rival.route != route}
        return self._lose(route, reason, at)

    def tick(self, at: float) -> list[Instruction]:
        """Time has passed: silent members are lost, overdue probes decided."""
        found: list[Instruction] = []
        for member in sorted(self.doubtful(at), key=lambda member: member.client):
            rival = self._contenders.get(member.client)
            reason = f"{SILENT} for {at - member.heard_at:.1f} s"
            if rival is not None and at >= rival.decided_at:
                reason = "it did not answer while another process asked for its id"
            found += self._lose(member.route, reason, at)
        return found

    def next_wakeup(self) -> float | None:
        """Return when the next `tick` is due."""
        times = [self._silent_at(member) for member in self.members.values() if not self._is_watched(member.client)]
        times += [rival.decided_at for rival in self._contenders.values()]
        return min(times, default=None)

    def _silent_at(self, member: Member) -> float:
        return member.heard_at + self.silence_s

    def _put_off(self, client: str, since: float) -> None:
        rival = self._contenders.get(client)
        if rival is not None:
            decided_at = max(rival.decided_at, since + PROBE_S)
            self._contenders[client] = msgspec.structs.replace(rival, decided_at=decided_at)

    def _admit(self, client: str, route: bytes, incarnation: int, at: float) -> Admit:
        self._forget(client)
        self.members[client] = Member(client, route, incarnation, at)
        self._clients[route] = client
        return Admit(client, route)

    def _free(self, route: bytes, client: str, at: float) -> list[Instruction]:
        """End whatever this route holds or asks for under another id than this one."""
        rivals = self._contenders.items()
        self._contenders = {other: rival for other, rival in rivals if rival.route != route or other == client}
        holder = self._clients.get(route, client)
        return self._lose(route, f"its connection says it is {client}", at) if holder != client else []

    def _lose(self, route: bytes, reason: str, at: float) -> list[Instruction]:
        client = self._clients.get(route)
        if client is None:
            return []
        rival = self._contenders.pop(client, None)
        self._forget(client)
        found: list[Instruction] = [Lost(client, reason)]
        if rival is not None:
            found.append(self._admit(client, rival.route, rival.incarnation, at))
        return found

    def _forget(self, client: str) -> None:
        member = self.members.pop(client, None)
        if member is not None:
            del self._clients[member.route]
