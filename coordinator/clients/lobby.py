"""The lobby: greets clients, checks that they fit the run, and knows who is here and what each announced.

Who is connected is for the foyer to say. A client takes part from its `Ready` on; one that does not fit the run is
refused by name for good, and costs nobody else anything. One whose part of the run's data another has waits outside:
either of them may be the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from coordinator.aggregator.half import Constant
from coordinator.clients import foyer
from coordinator.clients.device import data_index
from coordinator.clients.door import Arrival
from coordinator.clients.foyer import Fault, Foyer, Guest
from coordinator.clients.put_off import PutOff
from models.methods.api import Method
from models.spec import RunSpec
from wire.encoding import Frames, Packed, encode
from wire.limits import MAX_ENTRIES, MAX_SAMPLES
from wire.messages import (
    Constant as ConstantMessage,
)
from wire.messages import Goodbye, Hello, Ping, Pong, Ready, RefusalCode, Welcome
from wire.sockets.tcp import Counters

WAITS_EVERY_S = 1.0
"""What a client waits for is taken note of at most so often."""

MAX_WAITS_CHARACTERS = 200


@dataclass(frozen=True)
class Events:
    """What the lobby tells the run.

    Attributes:
        ready: a client can work; or, where the last argument is true, one that can has other samples now.
        gone: one is here no more.
        constant_sent: a run constant went out, with this payload in these frames.
        undelivered: a message could not be sent to this client, `""` where none speaks by the connection.
        note: a line for people.
        turned_away: a client that was refused for good, by the code and in words.
        waiting: what the clients who do not work now wait for, by client, after a change.
        joined: a client by its route, and what it says of its device.
    """

    ready: Callable[[str, Ready, bool], None]
    gone: Callable[[str], None]
    constant_sent: Callable[[str, ConstantMessage, Packed, Frames], None]
    undelivered: Callable[[str], None]
    note: Callable[[str], None]
    turned_away: Callable[[str, str], None]
    waiting: Callable[[Mapping[str, str]], None]
    joined: Callable[[str, bytes, Mapping[str, Any]], None]


class Lobby:
    """Everybody who is connected. Times are monotonic seconds."""

    def __init__(
        self,
        spec: RunSpec,
        method: Method,
        welcome: Welcome,
        announced: Mapping[str, Ready],
        left_out: Mapping[str, str],
        send: Callable[[bytes, Frames], bool],
        counters: Callable[[bytes], Counters | None],
        events: Events,
    ) -> None:
        """Begin with nobody.

        Args:
            spec: the run.
            method: its method.
            welcome: what clients are welcomed with, but for the run constants.
            announced: what clients announced before a restart.
            left_out: who is left out of the run by now, and why; it is looked up whenever a client comes.
            send: the door's.
            counters: the door's.
            events: what is told.
        """
        self._spec = spec
        self._method = method
        self._welcome = welcome
        self._events = events
        told = foyer.Events(
            came=self._on_came,
            gone=self._on_gone,
            turned_away=events.turned_away,
            fault_of=self._fault_of,
            put_off=self._put_off_now,
            undelivered=events.undelivered,
        )
        self._put_off = PutOff(events.note)
        self._foyer = Foyer(welcome.heartbeat_s, send, counters, told)
        self._constants: list[tuple[ConstantMessage, Packed, Frames]] = []
        self._welcome_frames: Frames = []
        self._open = False
        self.announced = dict(announced)
        self._left_out = left_out
        self._at_work: set[str] = set()
        self._waits_for: dict[str, str] = {}
        self._waits_at: dict[str, float] = {}
        self._closed = False
        self.away: dict[str, str] = {}
        """Why each client is gone that was here."""

    @property
    def clients(self) -> list[str]:
        """The ids of those who are connected."""
        return sorted(self._foyer.guests)

    @property
    def put_off(self) -> Mapping[str, str]:
        """What each client that is not let in for now waits for, in words."""
        return self._put_off.why

    def heard_at(self) -> dict[str, float]:
        """Return when each of those who are connected was last heard."""
        return self._foyer.heard_at()

    def routes(self, clients: Iterable[str]) -> dict[str, bytes]:
        """Return the connections of those of these clients who are connected."""
        guests = self._foyer.guests
        return {client: guests[client].route for client in clients if client in guests}

    def has(self, client: str) -> bool:
        """Say whether this client is connected."""
        return client in self._foyer.guests

    def open(self, constants: Sequence[Constant]) -> None:
        """Begin to welcome, now that the run's constants are made.

        Raises:
            EncodeError: the run or one of its constants is more than a message may hold.
        """
        for constant in constants:
            message = ConstantMessage(self._welcome.run, constant.name, constant.digest)
            frames = encode(message, constant.packed, self._welcome.max_message_bytes)
            self._constants.append((message, constant.packed, frames))
        self._welcome_frames = self._encode_welcome()
        self._open = True
        for guest in self._foyer.guests.values():
            self._admit(guest)

    def close(self) -> None:
        """Welcome nobody any more: the run is over."""
        self._closed = True

    def take(self, arrival: Arrival, at: float) -> str | None:
        """Take any message; return the client that it is from if it is from one who is here."""
        message = arrival.message
        if self._closed and isinstance(message, Hello):
            return None
        guest = self._foyer.take(arrival, at)
        if guest is None:
            return None
        if isinstance(message, Goodbye):
            self._foyer.leave(guest.route, message.reason, at)
        elif isinstance(message, Ping):
            self._note_wait(guest.client, message.waits_for[:MAX_WAITS_CHARACTERS], at)
            self.prove_life(guest.client, at)
        elif isinstance(message, Ready):
            self._ready(guest.client, guest.route, message)
        return guest.client

    def send(self, client: str, frames: Frames, at: float) -> bool:
        """Send to a client; one that cannot be reached is gone, and that is told."""
        return self._foyer.send(client, frames, at)

    def prove_life(self, client: str, at: float) -> None:
        """Let a client hear that the coordinator is there."""
        self.send(client, encode(Pong()), at)

    def bar(self, route: bytes, reason: str, at: float) -> None:
        """Hear no more of a connection: its client is gone."""
        self._foyer.bar(route, reason, at)

    def leave_out(self, client: str, at: float) -> None:
        """Send away a client who is left out by now, if it is here."""
        guest, reason = self._foyer.guests.get(client), self._left_out[client]
        if guest is not None:
            self._foyer.turn_away(guest.route, RefusalCode.LEFT_OUT, reason)
            self.bar(guest.route, reason, at)

    def tick(self, at: float) -> None:
        """Time has passed."""
        self._foyer.tick(at)
        self._put_off.tick(at)

    def next_wakeup(self) -> float | None:
        """Return when the next `tick` is due."""
        times = (self._foyer.next_wakeup(), self._put_off.next_wakeup())
        return min((time for time in times if time is not None), default=None)

    def _fault_of(self, guest: Guest) -> Fault | None:
        """Say what keeps a client from coming in, None if nothing does."""
        if guest.client in self._left_out:
            return RefusalCode.LEFT_OUT, self._left_out[guest.client]
        return None

    def _put_off_now(self, guest: Guest, at: float) -> Fault | None:
        """Say why a client has to wait: another one that is connected has its part of the run's data."""
        index = data_index(guest.device)
        if index is None:
            return None
        others = [other for other in self._foyer.guests.values() if other.client != guest.client]
        holder = next((other.client for other in others if data_index(other.device) == index), "")
        return (RefusalCode.DATA_INDEX, self._put_off.add(guest.client, holder, index, at)) if holder else None

    def _on_came(self, guest: Guest) -> None:
        self.away.pop(guest.client, None)
        self._put_off.came(guest.client)
        self._events.joined(guest.client, guest.route, guest.device)
        if self._open:
            self._admit(guest)

    def _on_gone(self, guest: Guest, reason: str) -> None:
        if not self._closed:  # once the run is over everybody is expected to go
            self._events.note(f"{guest.client} is gone: {reason}")
        self.away[guest.client] = reason
        self._set_wait(guest.client, "")
        self._events.gone(guest.client)

    def _note_wait(self, client: str, waits_for: str, at: float) -> None:
        """Tell people what a client waits for, if that is news; a change that comes too soon is told with the next."""
        if waits_for == self._waits_for.get(client, "") or at < self._waits_at.get(client, at):
            return
        self._waits_at[client] = at + WAITS_EVERY_S
        self._events.note(f"{client} waits for {waits_for}" if waits_for else f"{client} waits no longer")
        self._set_wait(client, waits_for)

    def _set_wait(self, client: str, waits_for: str) -> None:
        if waits_for != self._waits_for.pop(client, ""):
            self._waits_for |= {client: waits_for} if waits_for else {}
            self._events.waiting(self._waits_for)

    def _admit(self, guest: Guest) -> None:
        """Welcome a client and send the run constants that it does not hold, those with the same arrays once."""
        self._events.note(f"{guest.client} joined")
        self._at_work.discard(guest.client)
        self._foyer.send_by(guest.route, self._welcome_frames)
        held = set(guest.hello.constants)
        for message, packed, frames in self._constants:
            if message.digest not in held and self._foyer.send_by(guest.route, frames):
                held.add(message.digest)
                self._events.constant_sent(guest.client, message, packed, frames)

    def _encode_welcome(self) -> Frames:
        constants = [constant for constant, _, _ in self._constants]
        digests, names = [each.digest for each in constants], [each.name for each in constants]
        return encode(msgspec.structs.replace(self._welcome, constants=digests, names=names))

    def _ready(self, client: str, route: bytes, ready: Ready) -> None:
        if ready.run != self._welcome.run:
            self._foyer.refuse(route, RefusalCode.UNKNOWN_SESSION, f"this is run {self._welcome.run_id}")
            return
        misfit = self._misfit(client, ready)
        if misfit is not None:
            self._foyer.turn_away(route, *misfit)
            return
        self._tell_skipped(client, ready)
        self._tell_not_found(client, ready)
        self.announced[client] = ready
        self._events.ready(client, ready, client in self._at_work)
        self._at_work.add(client)

    def _tell_skipped(self, client: str, ready: Ready) -> None:
        before = self.announced.get(client)
        if ready.num_skipped != (before.num_skipped if before else 0):
            self._events.note(f"{client} has {ready.num_skipped} samples that it cannot use; its own log says why")

    def _tell_not_found(self, client: str, ready: Ready) -> None:
        before = self.announced.get(client)
        if ready.lost_round and ready.lost_round != (before.lost_round if before else 0):
            told = f"{client} goes on from another state than that of round {ready.lost_round}"
            self._events.note(f"{told}: its own is gone, or this store is an older copy; its own log says which")

    def _misfit(self, client: str, ready: Ready) -> Fault | None:
        """Say what keeps a client from taking part, None if it fits the run."""
        wanted = self._spec.model.feature_dim
        if ready.feature_dim != wanted:
            return RefusalCode.FEATURE_DIM, f"the run's feature_dim is {wanted}, {client}'s net has {ready.feature_dim}"
        if reason := self._misfit_of_samples(client, ready):
            return RefusalCode.LABEL_MAP, reason
        if reason := self._misfit_of_model(client, ready):
            return RefusalCode.MODEL, reason
        return None

    def _misfit_of_samples(self, client: str, ready: Ready) -> str:
        announced = (ready.num_train, ready.num_test, ready.num_skipped, *ready.class_counts, *ready.test_counts)
        if not all(0 <= count <= MAX_SAMPLES for count in announced):
            return f"expected counts of samples from 0 to {MAX_SAMPLES:,}, {client} sent others"
        num_classes = self._spec.num_classes
        if len(ready.class_counts) != num_classes or sum(ready.class_counts) != ready.num_train:
            return (
                f"expected counts of {num_classes} classes that sum to {ready.num_train}, "
                f"{client} sent {len(ready.class_counts)} that sum to {sum(ready.class_counts)}"
            )
        return ""

    def _misfit_of_model(self, client: str, ready: Ready) -> str:
        size = (ready.num_parameters, ready.num_buffers)
        if not all(0 <= count <= MAX_ENTRIES for count in size):
            return f"expected numbers of parameters from 0 to {MAX_ENTRIES:,}, {client} sent others"
        if not self._method.shares_model:
            return ""
        for other, theirs in self.announced.items():
            is_here = other != client and self.has(other)
            if is_here and size != (theirs.num_parameters, theirs.num_buffers):
                return (
                    f"{self._method.name} averages whole nets: expected {theirs.num_parameters} parameters and "
                    f"{theirs.num_buffers} buffers as {other} has, {client} has {size[0]} and {size[1]}"
                )
        return ""
