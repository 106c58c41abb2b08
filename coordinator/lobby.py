"""The lobby: greets clients, checks that they fit the run, and knows who is here and what each announced.

It carries out what `membership` decides. A client takes part from its `Ready` on; one that does not fit the run is
refused by name for good, and costs nobody else anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator import membership
from coordinator.device import data_index
from coordinator.greeting import duplicate, fault_of, pass_time, speaker
from coordinator.half import Constant
from coordinator.membership import Membership
from models.methods.api import Method
from models.spec import RunSpec
from wire.encoding import Packed, encode
from wire.limits import MAX_ENTRIES, MAX_SAMPLES
from wire.messages import (
    Constant as ConstantMessage,
)
from wire.messages import Goodbye, Hello, Message, Ping, Pong, Ready, Refusal, RefusalCode, Welcome

Frames = Sequence[bytes | memoryview]

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
        send: Callable[[bytes, Frames], bool],
        quiet_s: Callable[[bytes], float | None],
        events: Events,
    ) -> None:
        """Begin with nobody; `send` and `quiet_s` are the door's."""
        self._spec = spec
        self._method = method
        self._welcome = welcome
        self._send_to = send
        self._quiet_s = quiet_s
        self._events = events
        self._membership = Membership(welcome.heartbeat_s)
        self._constants: list[tuple[ConstantMessage, Packed, Frames]] = []
        self._welcome_frames: Frames = []
        self._hellos: dict[bytes, Hello] = {}
        self._open = False
        self.announced: dict[str, Ready] = {}
        self._at_work: set[str] = set()
        self._waits_for: dict[str, str] = {}
        self._waits_at: dict[str, float] = {}
        self._closed = False
        self.left_out: dict[str, str] = {}

    @property
    def clients(self) -> list[str]:
        """The ids of those who are connected."""
        return sorted(self._membership.members)

    def heard_at(self) -> dict[str, float]:
        """Return when each of those who are connected was last heard."""
        return {client: member.heard_at for client, member in self._membership.members.items()}

    def routes(self, clients: Iterable[str]) -> dict[str, bytes]:
        """Return the connections of those of these clients who are connected."""
        members = self._membership.members
        return {client: members[client].route for client in clients if client in members}

    def has(self, client: str) -> bool:
        """Say whether this client is connected."""
        return client in self._membership.members

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
        for member in self._membership.members.values():
            self._admit(member.client, member.route)

    def close(self) -> None:
        """Welcome nobody any more: the run is over."""
        self._closed = True

    def take(self, route: bytes, owner: str | None, message: Message, at: float) -> str | None:
        """Take any message; return the client that it is from if it is from one who is here.

        A connection speaks for its `owner` and for nobody else; None: for whom it says hello.
        """
        if isinstance(message, Hello):
            if not self._closed:
                self._hello(route, owner, message, at)
            return None
        client = speaker(self._membership, route, owner)
        if client is None:
            if not isinstance(message, Goodbye):
                self._refuse(route, RefusalCode.UNKNOWN_SESSION, "say hello first")
            return None
        if isinstance(message, Goodbye):
            self._obey(self._membership.goodbye(route, message.reason, at), at)
            return client
        self._obey(self._membership.heard(route, at), at)
        if isinstance(message, Ping):
            self._note_wait(client, message.waits_for[:MAX_WAITS_CHARACTERS], at)
            self.send(client, encode(Pong()), at)
        elif isinstance(message, Ready):
            self._ready(client, route, message)
        return client

    def send(self, client: str, frames: Frames, at: float) -> bool:
        """Send to a client; one that cannot be reached is gone, and that is told."""
        member = self._membership.members.get(client)
        if member is None:
            self._events.undelivered(client)
        elif self._send_by(member.route, frames):
            return True
        else:
            self._obey(self._membership.unreachable(member.route, at), at)
        return False

    def bar(self, route: bytes, reason: str, at: float) -> None:
        """Hear no more of a connection: its client is gone."""
        self._obey(self._membership.barred(route, reason, at), at)

    def leave_out(self, client: str, reason: str, at: float) -> None:
        """Refuse a client for good, also when it comes again."""
        self.left_out[client] = reason
        member = self._membership.members.get(client)
        if member is not None:
            self._turn_away(member.route, RefusalCode.LEFT_OUT, reason)
            self.bar(member.route, reason, at)

    def tick(self, at: float) -> None:
        """Time has passed; who is in the middle of a long message is not silent."""
        self._obey(pass_time(self._membership, self._quiet_s, at), at)

    def next_wakeup(self) -> float | None:
        """Return when the next `tick` is due."""
        return self._membership.next_wakeup()

    def _hello(self, route: bytes, owner: str | None, hello: Hello, at: float) -> None:
        fault = fault_of(hello, owner)
        if fault is not None:
            self._turn_away(route, *fault)
        elif hello.client in self.left_out:
            self._turn_away(route, RefusalCode.LEFT_OUT, self.left_out[hello.client])
        elif holder := self._holder_of(hello.client, index := data_index(hello.device)):
            reason = f"{hello.client} and {holder} have [data] index = {index}: expected another part for each client"
            self._turn_away(route, RefusalCode.DATA_INDEX, reason)
        else:
            self._hellos[route] = hello
            self._obey(self._membership.hello(hello.client, route, hello.incarnation, at), at)
            self._hellos = {held: self._hellos[held] for held in self._membership.routes()}

    def _holder_of(self, client: str, index: int | None) -> str:
        """Return who else is connected and has this part of the run's data, nothing if nobody or if it is no part."""
        if index is None:
            return ""
        others = [member for member in self._membership.members.values() if member.client != client]
        return next((other.client for other in others if data_index(self._hellos[other.route].device) == index), "")

    def _obey(self, instructions: Sequence[membership.Instruction], at: float) -> None:
        for instruction in instructions:
            if isinstance(instruction, membership.Admit):
                device = self._hellos[instruction.route].device
                self._events.joined(instruction.client, instruction.route, device)
                if self._open:
                    self._admit(instruction.client, instruction.route)
            elif isinstance(instruction, membership.RefuseDuplicate):
                self._turn_away(instruction.route, *duplicate(instruction.client))
            elif isinstance(instruction, membership.Probe):
                self.send(instruction.client, encode(Ping()), at)
            else:
                if not self._closed:  # once the run is over everybody is expected to go
                    self._events.note(f"{instruction.client} is gone: {instruction.reason}")
                self._set_wait(instruction.client, "")
                self._events.gone(instruction.client)

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

    def _admit(self, client: str, route: bytes) -> None:
        """Welcome a client and send the run constants that it does not hold."""
        self._events.note(f"{client} joined")
        self._at_work.discard(client)
        self._send_by(route, self._welcome_frames)
        for message, packed, frames in self._constants:
            is_held = message.digest in self._hellos[route].constants
            if not is_held and self._send_by(route, frames):
                self._events.constant_sent(client, message, packed, frames)

    def _encode_welcome(self) -> Frames:
        welcome = self._welcome
        digests = [constant.digest for constant, _, _ in self._constants]
        return encode(
            Welcome(welcome.run, welcome.run_id, welcome.heartbeat_s, welcome.max_message_bytes, welcome.spec, digests)
        )

    def _ready(self, client: str, route: bytes, ready: Ready) -> None:
        if ready.run != self._welcome.run:
            self._refuse(route, RefusalCode.UNKNOWN_SESSION, f"this is run {self._welcome.run_id}")
            return
        misfit = self._misfit(client, ready)
        if misfit is not None:
            self._turn_away(route, *misfit)
            return
        self._tell_skipped(client, ready)
        self.announced[client] = ready
        self._events.ready(client, ready, client in self._at_work)
        self._at_work.add(client)

    def _tell_skipped(self, client: str, ready: Ready) -> None:
        before = self.announced.get(client)
        if ready.num_skipped != (before.num_skipped if before else 0):
            self._events.note(f"{client} has {ready.num_skipped} samples that it cannot use; its own log says why")

    def _misfit(self, client: str, ready: Ready) -> tuple[str, str] | None:
        """Return code and reason of what keeps a client from taking part, None if it fits the run."""
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

    def _send_by(self, route: bytes, frames: Frames) -> bool:
        """Send by a connection; that it cannot be is told."""
        is_sent = self._send_to(route, frames)
        if not is_sent:
            self._events.undelivered(self._membership.client_at(route) or "")
        return is_sent

    def _refuse(self, route: bytes, code: str, reason: str, permanent: bool = False) -> None:
        self._send_by(route, encode(Refusal(code, reason, permanent)))

    def _turn_away(self, route: bytes, code: str, reason: str) -> None:
        """Refuse a client for good, and tell people."""
        self._events.turned_away(code, reason)
        self._refuse(route, code, reason, permanent=True)
