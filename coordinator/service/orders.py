"""What people ask of a standing coordinator, and what it answers: one order a connection, over a local socket.

On the socket an order or an answer is its length, four bytes, and a header as `wire.header` has it, with its limits.
Only the owner of the service's folder may open the socket.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import msgspec

from wire.encoding import decode, encode
from wire.errors import DecodeError
from wire.limits import MAX_HEADER_BYTES
from wire.messages import Message

SOCKET = "control.sock"
"""Its name in a service's folder."""

LENGTH = struct.Struct(">I")


class Submit(Message, frozen=True, array_like=True):
    """Queue a run: the tables of its file, each `--set` over them, and what errors call both."""

    tag: ClassVar[int] = 96
    tables: dict[str, dict[str, Any]]
    settings: list[str]
    where: str


class ListRuns(Message, frozen=True, array_like=True):
    """Say where the last runs stand, or that of one id alone."""

    tag: ClassVar[int] = 97
    run_id: str = ""


class Stop(Message, frozen=True, array_like=True):
    """End a run that goes on, so that it can be resumed."""

    tag: ClassVar[int] = 98
    run_id: str


class Resume(Message, frozen=True, array_like=True):
    """Queue a run that was stopped, cancelled or has failed once more."""

    tag: ClassVar[int] = 99
    run_id: str


class Cancel(Message, frozen=True, array_like=True):
    """Take a run out of the queue, or end one that goes on."""

    tag: ClassVar[int] = 100
    run_id: str


class Done(Message, frozen=True, array_like=True):
    """The order was carried out; what became of the run, in words."""

    tag: ClassVar[int] = 101
    run_id: str
    told: str = ""


class Refused(Message, frozen=True, array_like=True):
    """The order cannot be carried out; `is_full` where that is for want of space on the disk."""

    tag: ClassVar[int] = 102
    reason: str
    is_full: bool = False


class RunState(msgspec.Struct, frozen=True, array_like=True):
    """Where a run stands.

    Attributes:
        run_id: its id, which is the name of its folder.
        folder: the run folder.
        method: the method's name.
        state: `queued`, `running` or `over`.
        outcome: of one that is over: `finished`, `failed`, `interrupted` or `cancelled`.
        round: the round in hand of one that goes on, None of any other.
        num_rounds: how many it has.
        clients: who is in it.
        told: what it waits for, or why it is over.
    """

    run_id: str
    folder: str
    method: str
    state: str
    outcome: str = ""
    round: int | None = None
    num_rounds: int = 0
    clients: list[str] = []
    told: str = ""


class Runs(Message, frozen=True, array_like=True):
    """Where runs stand, the first submitted first."""

    tag: ClassVar[int] = 103
    runs: list[RunState]


ORDERS: dict[int, type[Message]] = {kind.tag: kind for kind in (Submit, ListRuns, Stop, Resume, Cancel)}
ANSWERS: dict[int, type[Message]] = {kind.tag: kind for kind in (Done, Refused, Runs)}


def to_bytes(message: Message) -> bytes:
    """Return an order or an answer as it travels.

    Raises:
        EncodeError: it is more than a header may hold.
    """
    header = bytes(encode(message)[0])
    return LENGTH.pack(len(header)) + header


def length_of(prefix: bytes) -> int:
    """Return how long the message behind its first four bytes is.

    Raises:
        DecodeError: longer than any may be.
    """
    (length,) = LENGTH.unpack(prefix)
    if length > MAX_HEADER_BYTES:
        raise DecodeError(f"expected at most {MAX_HEADER_BYTES} bytes, got {length}")
    return int(length)


def from_bytes(header: bytes, kinds: dict[int, type[Message]]) -> Message:
    """Return the message that came.

    Raises:
        DecodeError: it is none of these.
    """
    return decode([header], kinds)[0]
