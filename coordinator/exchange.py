"""The exchange in hand: what was sent down, and the updates that were accepted so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from models.methods.api import Exchange
from models.spec import in_one_line
from wire.encoding import Packed, unpack
from wire.errors import WireError
from wire.payload import Record

MAX_TOLD = 500
"""Characters of what is said about an update: it may quote what came, of which there may be a lot."""


class Accepted(msgspec.Struct):
    """An accepted update; a large one's buffer is left to the store once it is durable there."""

    num_train: int
    packed: Packed
    spilled: bool = False


class OpenExchange:
    """One exchange, or the evaluation after the last round, from its downlink to its close."""

    def __init__(self, round: int, index: int, declared: Exchange, downlink: Packed) -> None:
        self.round = round
        self.index = index
        self.downlink = downlink
        self.accepted: dict[str, Accepted] = {}
        self.declared = declared

    def misfit(
        self,
        packed: Packed,
        dims: Mapping[str, int],
        digests: Mapping[str, str],
        check: Callable[[Record], None],
        classes: Sequence[str] = (),
    ) -> str | None:
        """Say what is wrong with an uplink, None if it is one of this exchange.

        Args:
            packed: what came.
            dims: the sizes that it must have, by symbol.
            digests: the digests of the run's constants, by name.
            check: what else its record must stand.
            classes: the label map, whose names are told.
        """
        try:
            record = self.declared.uplink
            record.check_forms(packed.forms, packed.scalars, dims)  # before any array takes memory
            check(record.from_payload(unpack(packed), dims, digests, classes))
        except WireError as error:
            return in_one_line(f"exchange {self.declared.name!r}: {error}")[:MAX_TOLD]
        return None

    def accept(self, client: str, num_train: int, packed: Packed) -> None:
        """Take an update."""
        self.accepted[client] = Accepted(num_train, packed)

    def restore(self, client: str, num_train: int, packed: Packed, spilled: bool) -> None:
        """Take an update back from the store; of one that lies in a file the buffer is not needed."""
        self.accepted[client] = Accepted(num_train, packed, spilled=spilled)

    def spill(self, client: str) -> None:
        """Drop an update from memory that lies in a file."""
        held = self.accepted[client]
        held.packed, held.spilled = held.packed._replace(buffer=b""), True

    def contributions(self, load: Callable[[str], bytes]) -> Iterable[tuple[str, int, Packed]]:
        """Yield client, train samples and update in client-id order; `load` returns the buffer of a spilled one."""
        for client, held in sorted(self.accepted.items()):
            packed = held.packed._replace(buffer=load(client)) if held.spilled else held.packed
            yield client, held.num_train, packed
