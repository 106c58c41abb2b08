"""The header frame: plain values as msgpack, with limits that hold before anything is built.

A header is made of nil, truth values, 64-bit integers, floats, UTF-8 text, lists and maps whose keys are texts or
integers; msgpack's binary and extension types are not used. `_check_structure` walks the bytes without building
anything, so that a few bytes which announce millions of entries, or thousands of lists inside each other, cost nothing.
A short header can hold little, whatever it announces: it is decoded first, and then what it holds is looked at, unless
its bytes show that it cannot be too deep or of other types. The same checks run before sending: what one side sends,
the other takes.
"""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import numpy as np

from wire.errors import DecodeError, EncodeError, WireError
from wire.limits import MAX_DEPTH, MAX_HEADER_BYTES, MAX_HEADER_ITEMS, MAX_STRING_BYTES


def pack_header(content: Any, what: str) -> bytes:
    """Return `content` as header bytes; records become lists, numpy scalars Python numbers.

    Raises:
        EncodeError: it holds something that no header may hold; the text begins with `what`.
    """
    try:
        plain = msgspec.to_builtins(content, builtin_types=(bytes, bytearray, memoryview), enc_hook=_plain)
        header: bytes = msgpack.packb(plain, default=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(f"{what}: {error}") from None
    if len(header) > MAX_HEADER_BYTES:
        raise EncodeError(f"{what}: header: expected at most {MAX_HEADER_BYTES} bytes, got {len(header)}")
    try:
        if len(header) > SHORT_BYTES or not (_is_simple(header) or _fits(plain, MAX_DEPTH)):
            _check_structure(header)
    except WireError as error:
        raise EncodeError(f"{what}: {error}") from None
    return header


def unpack_header(frame: bytes | memoryview) -> Any:
    """Return the plain values of a header.

    Raises:
        DecodeError: not msgpack, not of the types above, over a limit, a key twice in a map, or bytes left over.
    """
    header = bytes(frame[: MAX_HEADER_BYTES + 1])  # enough to refuse a larger one
    if len(header) > SHORT_BYTES:
        _check_structure(header)
        return _unpacked(header)
    content = _unpacked(header)
    if not (_is_simple(header) or _fits(content, MAX_DEPTH)):
        _check_structure(header)
    return content


def _unpacked(header: bytes) -> Any:
    most = min(MAX_HEADER_ITEMS, len(header))  # no list has more items than there are bytes
    try:
        return msgpack.unpackb(
            header,
            raw=False,
            use_list=True,
            strict_map_key=False,
            object_pairs_hook=_map,
            max_array_len=most,
            max_map_len=most,
            max_str_len=MAX_STRING_BYTES,
            max_bin_len=0,
            max_ext_len=0,
        )
    except msgpack.ExtraData as error:
        used = len(header) - len(error.extra)
        raise DecodeError(f"header: expected {used} bytes, got {len(header)}") from None
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        _check_structure(header)  # mostly tells more
        raise DecodeError(f"header: {error}") from None


def _plain(item: Any) -> Any:
    if isinstance(item, np.generic):
        return item.item()
    raise TypeError(f"a header cannot hold {type(item).__name__} {item!r:.40}")


def _map(pairs: list[tuple[Any, Any]]) -> dict[str | int, Any]:
    if any(type(key) not in (str, int) for key, _ in pairs):
        raise DecodeError("header: expected texts or integers as keys of a map")
    content = dict(pairs)
    if len(content) != len(pairs):
        raise DecodeError("header: a key stands twice in one map")
    return content


SHORT_BYTES = 512
"""A header of up to this size can hold too much only by nesting, and little even so."""

_NESTING = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))  # the first bytes of lists and maps
_UNUSED = bytes((0xC1, *range(0xC4, 0xCA), *range(0xD4, 0xD9)))  # the first bytes of types that no header uses
_HARMLESS = bytes(set(range(256)) - {*_NESTING, *_UNUSED})


_LEAVES = frozenset((type(None), bool, int, float, str))
"""What a header is made of beside lists and maps."""


def _is_simple(header: bytes) -> bool:
    """Say whether a short header is within all limits by its bytes alone, wherever in an item they stand."""
    notable = header.translate(None, _HARMLESS)
    return len(notable) <= MAX_DEPTH and not notable.translate(None, _NESTING)


def _fits(content: Any, depth: int) -> bool:
    """Say whether there are only a header's types, and no more than `depth` lists and maps inside each other."""
    if type(content) in _LEAVES:
        return True
    if depth == 0 or type(content) not in (list, tuple, dict):
        return False
    children = content.values() if isinstance(content, dict) else content
    return _LEAVES.issuperset(map(type, children)) or all(_fits(child, depth - 1) for child in children)


def _check_structure(header: bytes) -> None:
    """Walk the items of `header`; raise DecodeError unless they are one complete value within all limits."""
    if len(header) > MAX_HEADER_BYTES:
        raise DecodeError(f"header: expected at most {MAX_HEADER_BYTES} bytes, got more")
    position, num_items, missing = 0, 0, 1
    outer: list[int] = []  # for each list or map around the present one: the items that it still lacks
    while missing or outer:
        if not missing:
            missing = outer.pop()
            continue
        if position >= len(header):
            raise DecodeError("header: ends inside a value")
        size, children = _measure(header, position)
        position, num_items, missing = position + size, num_items + 1, missing - 1
        if children is not None:
            outer.append(missing)
            missing = children
        if len(outer) > MAX_DEPTH:
            raise DecodeError(f"header: expected at most {MAX_DEPTH} lists and maps inside each other")
        if num_items + missing > MAX_HEADER_ITEMS:
            raise DecodeError(f"header: expected at most {MAX_HEADER_ITEMS} items")
    if position != len(header):
        raise DecodeError(f"header: expected {position} bytes, got {len(header)}")


_FIXED_SIZES = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9}  # nil, false, true, float 32, float 64
_FIXED_SIZES |= {first: 1 + (1 << (first & 3)) for first in range(0xCC, 0xD4)}  # unsigned and signed integers
_FIXED_SIZES |= dict.fromkeys((*range(0x80), *range(0xE0, 0x100)), 1)  # small integers, in the byte itself
_FIXED_SIZES |= {first: 1 + (first & 31) for first in range(0xA0, 0xC0)}  # short texts
_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}  # texts, lists, maps


def _measure(header: bytes, position: int) -> tuple[int, int | None]:
    """Return the bytes of the item at `position`, of a list or map up to its first child, and how many children it has.

    None stands for the children of an item that cannot have any.
    """
    first = header[position]
    size = _FIXED_SIZES.get(first)
    if size is not None:
        return size, None
    if first < 0xA0:
        return 1, (first & 15) * (2 if first < 0x90 else 1)
    width = _LENGTH_BYTES.get(first)
    if width is None:
        raise DecodeError(f"header: msgpack type 0x{first:02x} is not used")
    length = int.from_bytes(header[position + 1 : position + 1 + width], "big")
    if first >= 0xDC:
        return 1 + width, length * (2 if first >= 0xDE else 1)
    if length > MAX_STRING_BYTES:
        raise DecodeError(f"header: expected texts of at most {MAX_STRING_BYTES} bytes, got {length}")
    return 1 + width + length, None
