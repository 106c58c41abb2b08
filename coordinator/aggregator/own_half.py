"""The server half of a simulation, in its own process."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.aggregator.half import Aggregate, Closing, Constant, RoundUnusableError
from coordinator.aggregator.local_half import LocalHalf
from coordinator.metrics.versions import installed_versions
from models.methods.api import RoundFailedError
from models.spec import RunSpec, in_one_line
from wire.encoding import EMPTY_PACKED, Packed, unpack


class OwnHalf:
    """The server half in this process, asked as one in a process of its own is."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._half: LocalHalf
        self._state: Packed | None = None
        self.global_hash = ""
        self.versions = installed_versions()

    @property
    def state(self) -> Packed | None:
        """The latest state, None before the first aggregation."""
        return self._state

    @property
    def pid(self) -> None:
        """Nothing: the server half has no process of its own."""

    async def begin(self, state: Packed | None, num_train: int = 0, wants_constants: bool = False) -> list[Constant]:
        """Put the server half to this state (None: before round 1); return the run constants if they are wanted."""
        self._state = state
        self._half = LocalHalf(self._spec, unpack(state or EMPTY_PACKED), num_train)
        self.global_hash = self._half.global_hash
        return list(self._half.constants()) if wants_constants else []

    async def configure(self, round: int, exchange: str) -> Packed:
        """Return the downlink of an exchange."""
        return self._half.configure(round, exchange)

    async def aggregate(self, closing: Closing, meanwhile: Callable[[], None]) -> Aggregate:
        """Take in the accepted updates and return what the server half made of them."""
        meanwhile()
        try:
            unpacked = ((client, num_train, unpack(packed)) for client, num_train, packed in closing.contributions())
            made = self._half.aggregate(closing.round, closing.exchange, unpacked)
        except RoundFailedError as error:
            raise RoundUnusableError(in_one_line(str(error))) from error
        self._state = made.state._replace(buffer=bytes(made.state.buffer))  # its arrays may be used on
        self.global_hash = made.global_hash
        return Aggregate(self._state, made.global_hash, made.metrics)
