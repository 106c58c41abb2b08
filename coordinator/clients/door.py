"""The coordinator's one port: who may speak through it, and what of that is a message.

Every message is known by the client whose key its connection has proven to hold, and that key must count at the time
of the message: one that was revoked since is told so and heard no more. Without encryption anybody on this machine may
speak, for whom he says he is. Nothing that comes in here raises: it is turned away and counted.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable
from typing import Protocol

import msgspec

from coordinator.clients.enrolment import Verdict
from coordinator.clients.keys import Keys
from coordinator.clients.soundings import Soundings
from coordinator.clients.turned_away import TurnedAway
from coordinator.config import TransportSection
from wire.encoding import Frames, Packed, decode, encode, encoded_bytes
from wire.errors import DecodeError, UnknownMessageError
from wire.framing import JOINED_SINCE, joined, parted
from wire.messages import Hello, Message, Refusal, RefusalCode, Sounding, Update
from wire.sockets.endpoint import Context, Parts
from wire.sockets.gatekeeper import Gatekeeper
from wire.sockets.tcp import Counters
from wire.sockets.zeromq import AddressInUseError, Router
from wire.timing import Timing, split_timing

MAX_DESCRIPTORS = 65_536
"""No more are asked for, half-open connections included."""

JUNK = "junk"
"""What is turned away because it is no message."""


class Arrival(msgspec.Struct, frozen=True):
    """A message that came.

    Attributes:
        route: the connection, to answer by.
        owner: the client whose key the connection has, None if it is not encrypted.
        message: what it says.
        packed: its payload, if it carries one.
        frames: all of it as it came, without `timing`.
        timing: what stood behind an update.
    """

    route: bytes
    owner: str | None
    message: Message
    packed: Packed | None
    frames: Frames
    timing: Timing | None


OnArrival = Callable[[Arrival], None]

OnBarred = Callable[[bytes, str], None]
"""Hears of a connection that may speak no more, and why."""

OnEnded = Callable[[bytes, Counters | None], None]
"""Hears of a connection that is no more, and what the kernel counted on it."""


class Port(Protocol):
    """What a run speaks to its clients through: a door of its own, or its part of one that several share."""

    @property
    def address(self) -> str:
        """Where clients connect."""

    def counters(self, route: bytes) -> Counters | None:
        """Return what the kernel has counted on a connection, None if that is unknown."""

    def send(self, route: bytes, frames: Frames) -> bool:
        """Send to one connection; False if it is gone or takes nothing more."""

    def close(self) -> None:
        """Let nobody speak to this run any more."""


OpenPort = Callable[[OnArrival, OnBarred, TurnedAway, OnEnded], Port]
"""Opens a run's port, given who hears what comes in."""


class Door:
    """Listens from its making on."""

    def __init__(
        self,
        transport: TransportSection,
        keys: Keys | None,
        on_arrival: OnArrival,
        on_barred: OnBarred,
        turned_away: TurnedAway,
        on_ended: OnEnded,
    ) -> None:
        """Bind the port.

        Raises:
            AddressInUseError: the address cannot be bound.
        """
        _allow_descriptors()
        self._max_bytes = transport.max_message_bytes
        self._keys = keys
        self._on_arrival = on_arrival
        self._on_barred = on_barred
        self._turned_away = turned_away
        self._on_ended = on_ended
        self._know_joined: set[bytes] = set()
        self._soundings = Soundings()
        self._fault = ""
        self._context = Context(io_threads=1)
        self._gatekeeper = Gatekeeper(self._context, self._may_enter) if keys is not None else None
        own = keys.own if keys is not None else None
        try:
            self._router = Router(
                self._context, transport.bind, self._max_bytes, self._on_message, turned_away.add, self._forget, own
            )
        except AddressInUseError:
            self._close_context()
            raise

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._router.address

    def counters(self, route: bytes) -> Counters | None:
        """Return what the kernel has counted on a connection, None if that is unknown."""
        return self._router.counters(route)

    def send(self, route: bytes, frames: Frames) -> bool:
        """Send to one connection; False if it is gone or takes nothing more."""
        if route in self._know_joined:
            frames = joined(frames, self._keys is not None)
        return self._router.send(route, frames)

    def close(self) -> None:
        """Close the port; what was sent last is still delivered."""
        self._router.close()
        self._close_context()

    def _close_context(self) -> None:
        if self._gatekeeper is not None:
            self._gatekeeper.close()
        self._context.destroy(linger=500)

    def _may_enter(self, key: str, address: str) -> bool:
        verdict = self._judge(key)
        if verdict.code:
            self._turned_away.add(verdict.code, f"{verdict.reason} (from {address})")
        return not verdict.code

    def _judge(self, key: str) -> Verdict:
        assert self._keys is not None
        enrolment = self._keys.enrolment
        verdict = enrolment.judge(key)
        if enrolment.fault != self._fault:
            self._fault = enrolment.fault
            if self._fault:
                self._turned_away.note(f"the enrolment list stays as it was: {self._fault}")
        return verdict

    def _forget(self, route: bytes, counters: Counters | None) -> None:
        self._know_joined.discard(route)
        self._on_ended(route, counters)

    def _on_message(self, route: bytes, key: str, parts: Parts) -> None:
        owner = None
        if self._keys is not None:
            owner, code, reason = self._judge(key)
            if code:
                self._bar(route, code, reason)
                return
        try:
            arrival = _decoded(route, owner, parts, self._max_bytes)
        except DecodeError as error:
            self._turned_away.add(JUNK, f"{owner or 'a peer'} sent what is no message: {error}")
            if owner is not None and not isinstance(error, UnknownMessageError):
                self.send(route, encode(Refusal(RefusalCode.MALFORMED, str(error)[:200], False)))
            return
        if isinstance(arrival.message, Hello) and arrival.message.version >= JOINED_SINCE and self._router.has(route):
            self._know_joined.add(route)
        if isinstance(arrival.message, Sounding):
            self._sound(arrival, arrival.message)
        else:
            self._on_arrival(arrival)

    def _sound(self, arrival: Arrival, sounding: Sounding) -> None:
        assert arrival.packed is not None
        size_bytes = encoded_bytes(arrival.frames)
        if frames := self._soundings.echo(arrival.owner or "", sounding, arrival.packed, size_bytes):
            self.send(arrival.route, frames)

    def _bar(self, route: bytes, code: str, reason: str) -> None:
        self._turned_away.add(code, reason)
        self.send(route, encode(Refusal(RefusalCode.KEY, reason, True)))
        self._on_barred(route, reason)


def _allow_descriptors() -> None:
    """Let this process have as many connections as the system allows: some may be there to use them up.

    Where the system has a lower bound than it says, as macOS does, there remain as many as before.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _decoded(route: bytes, owner: str | None, parts: Parts, max_bytes: int) -> Arrival:
    frames, timing = split_timing(parted(parts, max_bytes))
    message, packed = decode(frames, max_bytes=max_bytes)
    if timing is not None and not isinstance(message, Update):
        raise DecodeError(f"{type(message).__name__}: expected no third frame")
    return Arrival(route, owner, message, packed, frames, timing)
