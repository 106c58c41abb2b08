"""A method's server half as the run asks it, wherever it lives: in a process of its own, or in a simulation's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from models.methods.faults import MethodError
from wire.encoding import Packed

Contributions = Callable[[], Iterable[tuple[str, int, Packed]]]
"""Yields client, train samples and update of each, in client-id order, anew each time."""


class RoundUnusableError(Exception):
    """This round cannot be aggregated; the run may go on."""


class ServerHalfError(MethodError):
    """The method's server half failed in its process, or that died too often."""


class Constant(msgspec.Struct, frozen=True):
    """A run constant as the server half made it."""

    name: str
    digest: str
    packed: Packed


class Closing(msgspec.Struct, frozen=True):
    """An exchange that closes.

    Attributes:
        round: its round.
        exchange: its name.
        contributions: what was accepted.
        count: of how many clients.
        following: round and name of the exchange that `configure` should be asked for next, None if there is none.
    """

    round: int
    exchange: str
    contributions: Contributions
    count: int
    following: tuple[int, str] | None = None


class Aggregate(msgspec.Struct, frozen=True):
    """The server half after an exchange: its whole state, the state's hash, and metrics to log."""

    state: Packed
    global_hash: str
    metrics: dict[str, float]


class Half(Protocol):
    """A server half that answers in its own time."""

    global_hash: str
    versions: dict[str, str]

    @property
    def state(self) -> Packed | None:
        """The latest state."""

    async def begin(self, state: Packed | None, num_train: int = 0, wants_constants: bool = False) -> list[Constant]:
        """Put the server half to a state."""

    async def configure(self, round: int, exchange: str) -> Packed:
        """Return a downlink."""

    async def aggregate(self, closing: Closing, meanwhile: Callable[[], None]) -> Aggregate:
        """Take in updates; `meanwhile` is called when the question is out."""

    @property
    def pid(self) -> int | None:
        """The process that it lives in, None if that is not its own."""
