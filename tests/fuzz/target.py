"""What is fuzzed: any bytes, as the parts of a message, through all that a coordinator does before it takes an update.

An input is parts, each behind its length in two bytes. Nothing but the errors that stand for a refusal may come of it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.clients.door import Arrival
from coordinator.clients.lobby import Events, Lobby
from coordinator.config import GateSection
from coordinator.gate import Gate
from models import methods
from tests.coordinator.hall import SPEC
from wire.encoding import Packed, decode, unpack
from wire.errors import DecodeError, RecordError
from wire.framing import joined, parted
from wire.messages import Hello, Message, Ready, Welcome
from wire.payload import Record, positions_in
from wire.tensors import Buffer
from wire.timing import split_timing
from wire.version import PROTOCOL_VERSION

CORPUS = Path(__file__).with_name("corpus.txt")
GOLDEN = Path(__file__).parents[1] / "golden"

MAX_BYTES = 1 << 18
"""No message of the fuzzed coordinator is larger."""

CLASS_COUNTS = [3, 2, 1, 0]
"""The train samples that its client has announced."""

UNIVERSE = 64
"""Of index sets."""

RECORDS: tuple[type[Record], ...] = tuple(
    {exchange.uplink for name in methods.names() for exchange in methods.find(name).exchanges}
)


class Target:
    """A coordinator's lobby with one client in it, whose connection all inputs come by."""

    def __init__(self) -> None:
        welcome = Welcome(7, "run-7", 5.0, MAX_BYTES, {})
        events = Events(*[_nothing] * len(dataclasses.fields(Events)))
        self._lobby = Lobby(SPEC, methods.default(), welcome, {}, {}, lambda *_: True, lambda _: None, events)
        self._lobby.open([])
        self._gate = Gate(GateSection(max_norm=1e3), SPEC.classes)

    def take(self, content: bytes) -> None:
        """Take one input; whatever it raises is a fault."""
        self._join()
        try:
            frames, _ = split_timing(parted(cut(content), MAX_BYTES))
            message, packed = decode(frames, max_bytes=MAX_BYTES)
        except DecodeError:
            return
        self._take(message, 1.0)
        if packed is not None:
            self._read(packed)

    def _join(self) -> None:
        self._take(Hello((PROTOCOL_VERSION.major, 0), "a", 1), 0.0)
        self._take(Ready(7, sum(CLASS_COUNTS), 2, CLASS_COUNTS, 6, 100, 10), 0.0)

    def _take(self, message: Message, at: float) -> None:
        self._lobby.take(Arrival(b"1", "a", message, None, [], None), at)

    def _read(self, packed: Packed) -> None:
        try:
            payload = unpack(packed)
        except DecodeError:
            return
        for kind in RECORDS:
            try:
                self._gate.check(kind.from_payload(payload, {"K": SPEC.num_classes}), CLASS_COUNTS)
            except RecordError:
                continue
        for array in payload.arrays.values():
            try:
                positions_in(array, UNIVERSE)
            except DecodeError:
                continue


def cut(content: bytes) -> list[bytes]:
    """Return the parts of an input; the last may be shorter than its length says."""
    parts, start = [], 0
    while start < len(content):
        end = start + 2 + int.from_bytes(content[start : start + 2], "big")
        parts.append(content[start + 2 : end])
        start = end
    return parts


def join(parts: Sequence[Buffer]) -> bytes:
    """Return the input that `cut` makes these parts of."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def seeds() -> Iterator[bytes]:
    """Yield the golden frames in both forms, and the corpus."""
    for path in sorted(GOLDEN.glob("*/*.json")):
        frames = [bytes.fromhex(frame) for frame in json.loads(path.read_text())["frames"]]
        yield join(frames)
        if len(frames) > 1:
            yield join(joined(frames, True))
    for line in CORPUS.read_text().split():
        yield bytes.fromhex(line)


def _nothing(*content: object) -> None:
    """Hear what the lobby tells."""
