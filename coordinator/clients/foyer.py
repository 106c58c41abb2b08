"""The foyer: everybody who is connected, to one run or to a service: who is let in, and who is heard.

It carries out what `membership` decides about identities; what a client does in a run is between it and the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from coordinator.clients import membership
from coordinator.clients.door import Arrival
from coordinator.clients.membership import Membership
from models.settings import is_plain_name
from wire.encoding import Frames, encode
from wire.messages import Goodbye, Hello, Ping, Pong, Refusal, RefusalCode
from wire.sockets.tcp import Counters
from wire.version import PROTOCOL_VERSION, ProtocolVersion

Fault = tuple[str, str]
"""Why a client is refused: the code, and in words."""


class Guest(msgspec.Struct, frozen=True):
    """A client that is connected, by what it said first."""

    arrival: Arrival
    hello: Hello

    @property
    def client(self) -> str:
        """Its id."""
        return self.hello.client

    @property
    def route(self) -> bytes:
        """Its connection."""
        return self.arrival.route

    @property
    def device(self) -> Mapping[str, Any]:
        """What it said of its device."""
        return self.hello.device

    @property
    def stays(self) -> bool:
        """Whether it keeps its connection from run to run, as clients of protocol 1.3 do."""
        return self.hello.version >= (1, 3)


class Events(msgspec.Struct, frozen=True):
    """What the foyer tells, and asks.

    Attributes:
        came: a client is here, for the first time or on a new connection.
        gone: one is here no more; with the reason.
        turned_away: a client that was refused for good, by the code and in words.
        fault_of: why a client that might be let in is not, None if it is.
        put_off: why one that might be let in later is not now, None if it is; with the time.
        undelivered: a message could not be sent to this client, `""` where none speaks by the connection.
        is_watched: whether somebody else hears when this client is silent, and tells.
    """

    came: Callable[[Guest], None]
    gone: Callable[[Guest, str], None]
    turned_away: Callable[[str, str], None]
    fault_of: Callable[[Guest], Fault | None] = lambda guest: None
    put_off: Callable[[Guest, float], Fault | None] = lambda guest, at: None
    undelivered: Callable[[str], None] = lambda client: None
    is_watched: Callable[[str], bool] = lambda client: False


class Foyer:
    """The guests, by id; times are monotonic seconds."""

    def __init__(
        self,
        heartbeat_s: float,
        send: Callable[[bytes, Frames], bool],
        counters: Callable[[bytes], Counters | None],
        events: Events,
    ) -> None:
        """Begin with nobody; `send` and `counters` are the door's."""
        self._membership = Membership(heartbeat_s, events.is_watched)
        self._send_to = send
        self._counters = counters
        self._events = events
        self._asking: dict[bytes, Guest] = {}
        self.guests: dict[str, Guest] = {}

    def take(self, arrival: Arrival, at: float) -> Guest | None:
        """Take any message; return the guest that it is from, None if it was a greeting or is from nobody here.

        A connection speaks for the owner of its key and for nobody else; where it has none, for whom it says hello.
        """
        message = arrival.message
        if isinstance(message, Hello):
            self._hello(Guest(arrival, message), at)
            return None
        guest = self.guest_at(arrival.route)
        if guest is None or arrival.owner not in (None, guest.client):
            if not isinstance(message, Goodbye):
                self.refuse(arrival.route, RefusalCode.UNKNOWN_SESSION, "say hello first")
            return None
        if isinstance(message, Pong):
            self._obey(self._membership.answered(arrival.route, at), at)
        else:
            self._membership.heard(arrival.route, at)
        return guest

    def guest_at(self, route: bytes) -> Guest | None:
        """Return the guest that speaks by a connection, None if nobody does."""
        client = self._membership.client_at(route)
        return self.guests[client] if client is not None else None

    def send(self, client: str, frames: Frames, at: float) -> bool:
        """Send to a guest; False if the client is none, or cannot be reached and so is gone."""
        guest = self.guests.get(client)
        if guest is None:
            self._events.undelivered(client)
        elif self.send_by(guest.route, frames):
            return True
        else:
            self._obey(self._membership.unreachable(guest.route, at), at)
        return False

    def send_by(self, route: bytes, frames: Frames) -> bool:
        """Send by a connection; False if it cannot be reached, which is told."""
        is_sent = self._send_to(route, frames)
        if not is_sent:
            self._events.undelivered(self._membership.client_at(route) or "")
        return is_sent

    def leave(self, route: bytes, reason: str, at: float) -> None:
        """Let a client go."""
        self._obey(self._membership.goodbye(route, reason, at), at)

    def bar(self, route: bytes, reason: str, at: float) -> None:
        """Hear no more of a connection."""
        self._obey(self._membership.barred(route, reason, at), at)

    def tick(self, at: float) -> None:
        """Time has passed; who is in the middle of a long message is not silent."""
        for member in self._membership.doubtful(at):
            counters = self._counters(member.route)
            if counters is not None:
                self._membership.heard(member.route, at - counters.quiet_s)
                if counters.unsent_bytes > 0:
                    self._membership.still_sending(member.route, at)
        self._obey(self._membership.tick(at), at)

    def heard_at(self) -> dict[str, float]:
        """Return when each guest was last heard."""
        return {client: member.heard_at for client, member in self._membership.members.items()}

    def next_wakeup(self) -> float | None:
        """Return when the next `tick` is due."""
        return self._membership.next_wakeup()

    def refuse(self, route: bytes, code: str, reason: str, permanent: bool = False) -> None:
        """Refuse what came by a connection."""
        self.send_by(route, encode(Refusal(code, reason, permanent)))

    def turn_away(self, route: bytes, code: str, reason: str) -> None:
        """Refuse a client for good, and tell of it."""
        self._events.turned_away(code, reason)
        self.refuse(route, code, reason, permanent=True)

    def _hello(self, guest: Guest, at: float) -> None:
        fault = _fault_of(guest.hello, guest.arrival.owner) or self._events.fault_of(guest)
        if fault is not None:
            self.turn_away(guest.route, *fault)
            return
        if (reason := self._events.put_off(guest, at)) is not None:
            self.refuse(guest.route, *reason)
            return
        self._asking[guest.route] = guest
        self._obey(self._membership.hello(guest.client, guest.route, guest.hello.incarnation, at), at)
        known = self._membership.routes()
        self._asking = {route: asking for route, asking in self._asking.items() if route in known}

    def _obey(self, instructions: Sequence[membership.Instruction], at: float) -> None:
        for instruction in instructions:
            client = instruction.client
            if isinstance(instruction, membership.Admit):
                self.guests[client] = self._asking.pop(instruction.route)
                self._events.came(self.guests[client])
            elif isinstance(instruction, membership.RefuseDuplicate):
                reason = f"client id {client!r} is held by a client that is connected and alive"
                self.turn_away(instruction.route, RefusalCode.DUPLICATE_CLIENT, reason)
            elif isinstance(instruction, membership.Probe):
                self.send(client, encode(Ping()), at)
            else:
                self._events.gone(self.guests.pop(client), instruction.reason)


def _fault_of(hello: Hello, owner: str | None) -> Fault | None:
    """Say why nobody may have a client; `owner` is whose key its connection has."""
    theirs = ProtocolVersion(*hello.version)
    if theirs.major != PROTOCOL_VERSION.major:
        reason = f"the coordinator speaks protocol {PROTOCOL_VERSION}, {hello.client[:80]} speaks {theirs}"
        return RefusalCode.VERSION, reason
    if not is_plain_name(hello.client):
        reason = f"expected a client id of letters, digits and . _ -, got {hello.client[:80]!r}"
        return RefusalCode.CLIENT_ID, reason
    if owner not in (None, hello.client):
        reason = f"the key is that of {owner}, the client says that it is {hello.client}"
        return RefusalCode.KEY, reason
    return None
