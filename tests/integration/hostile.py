"""Updates that are whole but for one thing, as devices, scanners and other systems' bug reports have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tests.integration.plugins.pairs import Sums
from wire.encoding import encode, pack
from wire.messages import Update
from wire.payload import Payload, Tensor

WIDTH = 8

HOSTILE_BYTES = {
    "an array of 4 billion": "ddff000000",
    "a map inside junk": "9ffd74f7dd74fffdbd",
    "4 GiB of bytes": "c6ffffffff",
    "a map of 4 billion": "dfffffffff",
    "a text of 4 GiB": "dbffffffff",
    "an extension of 4 GiB": "c9ffffffff01",
    "72 KB of nested lists": "dcffff" * 24_000,
    "10,000 lists in each other": "91" * 10_000,
    "1,023 lists in each other": "91" * 1_023,
    "as many lists in each other as fit": "91" * 200_000,
    "65,535 empty maps": "dcffff" + "80" * 65_535,
    "a key twice": "82a16101a16102",
    "trailing bytes": "80c0c0",
    "an old greeting": "0100060068656c6c6f",
}
"""Each is a header of its own, and what stands for the scalars of an update that is whole otherwise."""


class Hostile(NamedTuple):
    """An update, words of its refusal, and whether it is a message at all, so that it counts against its client."""

    name: str
    frames: list[bytes]
    words: str
    is_message: bool = True


def hostile_updates(run: int) -> Iterator[Hostile]:
    """Yield updates of the first exchange of `plugins/pairs.py`, of a run with this token."""
    header, buffer = _frames(run, Sums(np.zeros(WIDTH, np.float32), np.ones(1, np.uint32)).to_payload("f32"))
    for name, content in HOSTILE_BYTES.items():
        for where, begin in (("as header", b""), ("as scalars", header[:-1])):
            yield Hostile(f"{name}, {where}", [begin + bytes.fromhex(content), buffer], "header", is_message=False)
    yield Hostile("a short buffer", [header, buffer[:-1]], "bytes")
    yield Hostile("a third frame", [header, buffer, b"x"], "timing", is_message=False)
    yield Hostile("nine frames", [header] * 9, "expected one or two frames", is_message=False)
    yield from _wrong_numbers(run, header, buffer)


def _wrong_numbers(run: int, header: bytes, buffer: bytes) -> Iterator[Hostile]:
    good, one = np.zeros(WIDTH, np.float32), np.ones(1, np.uint32)
    numbers = buffer[WIDTH * 4 :]
    for name, at in (("nan", 1), ("inf", 0), ("-inf", 7)):
        broken = good.copy()
        broken[at] = float(name)
        words = f"field 'sums': expected finite values, got {name} at [{at}]"
        yield Hostile(name, [header, broken.tobytes() + numbers], words)
    wrong = {
        "a number out of range": (Sums(good + 1e30, one), "expected up to [gate] max_abs = 1e+09, got 1e+30"),
        "absurd counts": (Sums(good, np.full(1, 2**32 - 1, np.uint32)), "samples that it announced, got 4294967295"),
        "one too many": (Sums(np.zeros(WIDTH + 1, np.float32), one), "expected W = 8, got 9"),
        "100,000 numbers": (Sums(np.zeros(100_000, np.float32), one), "expected W = 8, got 100000"),
    }
    for name, (record, words) in wrong.items():
        yield Hostile(name, _frames(run, record.to_payload("f32")), words)
    overflown = Payload({"sums": Tensor("f16", good), "num": Tensor("u32", one)})
    half_header, _ = _frames(run, overflown)
    endless = np.full(WIDTH, np.inf, np.float16).tobytes()
    yield Hostile("1e5 in f16", [half_header, endless + numbers], "expected finite values, got inf")


def _frames(run: int, payload: Payload) -> list[bytes]:
    return [bytes(frame) for frame in encode(Update(run, 1, 0, []), pack(payload))]
