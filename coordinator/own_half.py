"""The server half of a simulation, in its own process."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.half import Aggregate, Closing, Constant, RoundUnusableError
from coordinator.local_half import LocalHalf
from coordinator.metrics.versions import installed_versions
from models.checkpoint import state_hash
from models.methods.api import RoundFailedError
from models.methods.faults import asked, made_by
from models.spec import RunSpec
from wire.encoding import Packed, pack, unpack
from wire.payload import EMPTY, Payload


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
        self._half = LocalHalf(self._spec, unpack(state) if state is not None else EMPTY, num_train)
        self.global_hash = self._half.global_hash
        made = self._half.constants().items() if wants_constants else ()
        with asked("constants of the server half"):
            return [Constant(name, state_hash(arrays), pack(Payload.of_state(arrays))) for name, arrays in made]

    async def configure(self, round: int, exchange: str) -> Packed:
        """Return the downlink of an exchange."""
        downlink = self._half.configure(round, exchange)
        with made_by(f"downlink of round {round}, exchange {exchange!r}"):
            return pack(downlink)

    async def aggregate(self, closing: Closing, meanwhile: Callable[[], None]) -> Aggregate:
        """Take in the accepted updates and return what the server half made of them."""
        meanwhile()
        try:
            unpacked = ((client, num_train, unpack(packed)) for client, num_train, packed in closing.contributions())
            made = self._half.aggregate(closing.round, closing.exchange, unpacked)
        except RoundFailedError as error:
            raise RoundUnusableError(str(error)) from error
        with made_by(f"global state after round {closing.round}, exchange {closing.exchange!r}"):
            state = pack(made.state)
        self._state = state._replace(buffer=bytes(state.buffer))  # its arrays may be used on
        self.global_hash = made.global_hash
        return Aggregate(self._state, made.global_hash, made.metrics)
