"""The foyer: everybody who is connected to a standing coordinator, whether in a run or not.

It carries out what `membership` decides about identities; what a client does in a run is between it and the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator import membership
from coordinator.door import Arrival, Frames
from coordinator.greeting import duplicate, fault_of, pass_time, speaker
from coordinator.membership import Membership
from wire.encoding import encode
from wire.messages import Goodbye, Hello, Ping, Refusal, RefusalCode


@dataclass(frozen=True)
class Guest:
    """A client that is connected, by what it said first."""

    arrival: Arrival
    hello: Hello

    @property
    def client(self) -> str:
        """Its id."""
        return self.hello.client

    @property
    def device(self) -> Mapping[str, Any]:
        """What it said of its device."""
        return self.hello.device

    @property
    def stays(self) -> bool:
        """Whether it keeps its connection from run to run, as clients of protocol 1.3 do."""
        return self.hello.version >= (1, 3)


@dataclass(frozen=True)
class Events:
    """What the foyer tells.

    Attributes:
        came: a client is here, for the first time or on a new connection.
        gone: one is here no more; with the reason.
        turned_away: a client that was refused for good, by the code and in words.
    """

    came: Callable[[Guest], None]
    gone: Callable[[Guest, str], None]
    turned_away: Callable[[str, str], None]


class Foyer:
    """Times are monotonic seconds."""

    def __init__(
        self,
        heartbeat_s: float,
        send: Callable[[bytes, Frames], bool],
        quiet_s: Callable[[bytes], float | None],
        events: Events,
    ) -> None:
        """Begin with nobody; `send` and `quiet_s` are the door's."""
        self._membership = Membership(heartbeat_s)
        self._send = send
        self._quiet_s = quiet_s
        self._events = events
        self._hellos: dict[bytes, Guest] = {}
        self.guests: dict[str, Guest] = {}

    def take(self, arrival: Arrival, at: float) -> Guest | None:
        """Take any message; return the guest that it is from, None if it was a greeting or is from nobody here."""
        message, route = arrival.message, arrival.route
        if isinstance(message, Hello):
            self._hello(arrival, message, at)
            return None
        client = speaker(self._membership, route, arrival.owner)
        if client is None:
            if not isinstance(message, Goodbye):
                self._refuse(route, RefusalCode.UNKNOWN_SESSION, "say hello first", permanent=False)
            return None
        self._obey(self._membership.heard(route, at))
        return self.guests[client]

    def guest_at(self, route: bytes) -> Guest | None:
        """Return the guest that speaks by a connection, None if nobody does."""
        client = self._membership.client_at(route)
        return self.guests[client] if client is not None else None

    def leave(self, route: bytes, reason: str, at: float) -> None:
        """Let a client go."""
        self._obey(self._membership.goodbye(route, reason, at))

    def bar(self, route: bytes, reason: str, at: float) -> None:
        """Hear no more of a connection."""
        self._hellos.pop(route, None)
        self._obey(self._membership.barred(route, reason, at))

    def tick(self, at: float) -> None:
        """Time has passed; who is in the middle of a long message is not silent."""
        self._obey(pass_time(self._membership, self._quiet_s, at))

    def _hello(self, arrival: Arrival, hello: Hello, at: float) -> None:
        fault = fault_of(hello, arrival.owner)
        if fault is not None:
            self._turn_away(arrival.route, *fault)
            return
        self._hellos[arrival.route] = Guest(arrival, hello)
        self._obey(self._membership.hello(hello.client, arrival.route, hello.incarnation, at))

    def _obey(self, instructions: Sequence[membership.Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, membership.Admit):
                self._admit(self._hellos.pop(instruction.route))
            elif isinstance(instruction, membership.RefuseDuplicate):
                self._hellos.pop(instruction.route, None)
                self._turn_away(instruction.route, *duplicate(instruction.client))
            elif isinstance(instruction, membership.Probe):
                self._send(instruction.route, encode(Ping()))
            else:
                self._events.gone(self.guests.pop(instruction.client), instruction.reason)

    def _admit(self, guest: Guest) -> None:
        self.guests[guest.client] = guest
        self._events.came(guest)

    def _turn_away(self, route: bytes, code: str, reason: str) -> None:
        self._events.turned_away(code, reason)
        self._refuse(route, code, reason, permanent=True)

    def _refuse(self, route: bytes, code: str, reason: str, permanent: bool) -> None:
        self._send(route, encode(Refusal(code, reason, permanent)))
