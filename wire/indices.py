"""Index sets: some of the positions 0 .. universe - 1, in about as many bytes as their entropy.

The content is a header of three varints (universe, members, parameter) and a run of bits. Coded are the members or,
where those are more than half, the others: each by its gap, the positions passed over since the coded one before. A gap
is a Golomb code, its quotient by a divisor in unary and the remainder in binary. With a power of two that is a Rice
code, and with 1 a bitmap. The parameter stands for the divisor in one byte. Equal parts of all gaps lie together, so
that whole arrays are coded at once; `PROTOCOL.md` (Index sets) has the bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wire.errors import DecodeError, EncodeError, UnfitArrayError
from wire.limits import MAX_UNIVERSE

Content = bytes | memoryview


class _Header(NamedTuple):
    universe: int
    num_members: int
    parameter: int

    @property
    def num_coded(self) -> int:
        """The positions that are coded: the members or the others, whichever are fewer."""
        return min(self.num_members, self.universe - self.num_members)

    @property
    def divisor(self) -> int:
        """What gaps are divided by: the parameter read as a floating-point number with a mantissa of 2 bits."""
        exponent, mantissa = divmod(self.parameter, 4)
        return (4 + mantissa) << (exponent - 1) if exponent else mantissa

    @property
    def max_quotients(self) -> int:
        """The most that the quotients of all gaps can add up to."""
        return (self.universe - self.num_coded) // self.divisor


def entropy_bytes(universe: int, count: int) -> int:
    """Return the bytes, rounded up, that tell one of all sets of `count` among `universe` positions."""
    log_sets = math.lgamma(universe + 1) - math.lgamma(count + 1) - math.lgamma(universe - count + 1)
    return math.ceil(log_sets / math.log(2) / 8)


def encode_indices(indices: np.ndarray, universe: int) -> bytes:
    """Return the content for these positions: a bitmap, or the code that suits a random set, whichever is smaller.

    A random set takes at most 3 % and 8 bytes more than its entropy, 4.5 % where 0.3 to 0.7 of all positions are in it.

    Args:
        indices: strictly increasing integers [B], each from 0 to `universe` - 1.
        universe: how many positions there are.

    Raises:
        UnfitArrayError: anything else.
        EncodeError: more positions than an index set may have.
    """
    _check_indices(indices, universe)
    members = indices.astype(np.int64, copy=False)
    coded = members if 2 * len(members) <= universe else _others(members, universe)
    gaps = (np.diff(coded, prepend=-1) - 1).astype(np.uint32)
    header = _Header(universe, len(members), _suited_parameter(universe, len(coded)))
    bits = _bits(gaps, header.divisor)
    if coded.size and coded[-1] < len(bits):
        header = header._replace(parameter=1)
        bits = _bits(gaps, header.divisor)
    return b"".join(map(_varint, header)) + np.packbits(bits).tobytes()


def decode_indices(content: Content, universe: int) -> np.ndarray:
    """Return the positions that `content` holds, int64 [B] and strictly increasing.

    Memory is bounded by the length of `content` and by `universe`, before any is taken.

    Raises:
        DecodeError: the content is not an index set among `universe` positions, to the last bit.
    """
    header, start = _read_header(content)
    if header.universe != universe:
        raise DecodeError(f"index set: expected one among {universe} positions, got one among {header.universe}")
    coded = _positions(content[start:], header)
    return coded if 2 * header.num_members <= universe else _others(coded, universe)


def universe_of(content: Content) -> int:
    """Return how many positions an index set says that there are.

    Raises:
        DecodeError: the content does not begin like one.
    """
    return _read_header(content)[0].universe


def _check_indices(indices: np.ndarray, universe: int) -> None:
    if not 0 <= universe <= MAX_UNIVERSE:
        raise EncodeError(f"index set: expected at most {MAX_UNIVERSE} positions, got {universe}")
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise UnfitArrayError(f"index set: expected integers [B], got {indices.dtype} {list(indices.shape)}")
    falls = np.flatnonzero(indices[1:] <= indices[:-1])
    if falls.size:
        before, after = indices[falls[0] : falls[0] + 2].tolist()
        raise UnfitArrayError(f"index set: expected strictly increasing positions, got {after} after {before}")
    if indices.size and not (indices[0] >= 0 and indices[-1] < universe):
        outside = indices[0] if indices[0] < 0 else indices[-1]
        raise UnfitArrayError(f"index set: expected positions from 0 to {universe - 1}, got {outside}")


def _others(positions: np.ndarray, universe: int) -> np.ndarray:
    """Return all positions but these."""
    is_other = np.ones(universe, bool)
    is_other[positions] = False
    return np.flatnonzero(is_other).astype(np.int64, copy=False)


def _suited_parameter(universe: int, num_coded: int) -> int:
    """Return the parameter whose divisor codes a random set of this density in about the fewest bits."""
    if not num_coded:
        return 1
    density = num_coded / universe
    divisor = math.ceil(math.log(2 - density) / -math.log1p(-density))  # the best one (Gallager and Van Voorhis, 1975)
    exponent = max(0, divisor.bit_length() - 3)
    return 4 * exponent + (divisor >> exponent)


def _remainder_bits(divisor: int) -> tuple[int, int]:
    """Return the bits of a short remainder, and how many are short: the smallest ones; the rest have one bit more."""
    width = divisor.bit_length() - 1
    return width, (2 << width) - divisor


def _bits(gaps: np.ndarray, divisor: int) -> np.ndarray:
    """Return the code of the gaps: the heads of all remainders, the last bits of the long ones, all quotients."""
    width, num_short = _remainder_bits(divisor)
    quotients = gaps // divisor
    remainders = gaps - divisor * quotients
    is_long = remainders >= num_short
    long = remainders[is_long] + num_short
    heads = remainders
    heads[is_long] = long >> 1
    head_bits = (heads[:, None] >> np.arange(width, dtype=np.uint32)[::-1]) & 1
    ends = np.cumsum(quotients + 1, dtype=np.int64) - 1
    unary = np.zeros(int(ends[-1]) + 1 if ends.size else 0, np.uint8)
    unary[ends] = 1
    return np.concatenate([head_bits.ravel().astype(np.uint8), (long & 1).astype(np.uint8), unary])


def _positions(content: Content, header: _Header) -> np.ndarray:
    """Return the coded positions, int64 and increasing."""
    num_coded = header.num_coded
    width, num_short = _remainder_bits(header.divisor)
    if 8 * len(content) > num_coded * (width + 2) + header.max_quotients + 7:
        raise DecodeError(f"index set: {len(content)} bytes are too many for {num_coded} coded positions")
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    heads_end = num_coded * width
    if len(bits) < heads_end + num_coded:
        raise DecodeError(f"index set: {len(content)} bytes are too few for {num_coded} coded positions")
    remainders = bits[:heads_end].reshape(num_coded, width) @ (1 << np.arange(width)[::-1])
    is_long = remainders >= num_short
    unary_start = heads_end + int(np.count_nonzero(is_long))
    quotients = _quotients(bits[unary_start:], header)
    remainders[is_long] = 2 * remainders[is_long] + bits[heads_end:unary_start] - num_short
    positions = np.cumsum(quotients * header.divisor + remainders + 1) - 1
    if num_coded and positions[-1] >= header.universe:
        raise DecodeError(f"index set: expected positions below {header.universe}, got {positions[-1]}")
    return positions


def _quotients(bits: np.ndarray, header: _Header) -> np.ndarray:
    """Return the quotients, each as many zeros before a one, to the end of the content."""
    ends = np.flatnonzero(bits.view(bool))
    if len(ends) != header.num_coded:
        raise DecodeError(f"index set: expected {header.num_coded} coded positions, got {len(ends)}")
    used = int(ends[-1]) + 1 if ends.size else 0
    if len(bits) - used >= 8:
        raise DecodeError("index set: bytes are left over")
    if used - len(ends) > header.max_quotients:
        raise DecodeError(f"index set: expected positions below {header.universe}, got one beyond")
    return np.diff(ends, prepend=-1) - 1


def _varint(number: int) -> bytes:
    """Return a number as its groups of 7 bits, the lowest first; all bytes but the last have the highest bit set."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*groups, number))


def _read_header(content: Content) -> tuple[_Header, int]:
    """Return the header and its length."""
    start, numbers = 0, []
    for _ in _Header._fields:
        number, start = _read_varint(content, start)
        numbers.append(number)
    header = _Header(*numbers)
    if not (header.num_members <= header.universe <= MAX_UNIVERSE and 1 <= header.parameter <= _MAX_PARAMETER):
        raise DecodeError(f"index set: no set has universe, members and parameter {tuple(header)}")
    return header, start


def _read_varint(content: Content, start: int) -> tuple[int, int]:
    """Return the number that begins at `start`, in as few bytes as it takes, and the place behind it."""
    number = 0
    for place, group in enumerate(content[start : start + _MAX_VARINT_BYTES]):
        number |= (group & 0x7F) << (7 * place)
        if group <= 0x7F:
            if group == 0 and place:
                raise DecodeError("index set: a number of the header is longer than it need be")
            return number, start + place + 1
    raise DecodeError("index set: the header ends inside a number")


_MAX_VARINT_BYTES = len(_varint(MAX_UNIVERSE))
_MAX_PARAMETER = 120  # its divisor is MAX_UNIVERSE
