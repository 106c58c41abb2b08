"""Index sets: every set comes back, their bytes are near the entropy, and anything else is refused on both sides."""

import math
import time
import timeit
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wire.errors import DecodeError, EncodeError
from wire.indices import decode_indices, encode_indices, entropy_bytes, universe_of
from wire.limits import MAX_UNIVERSE

GOLDEN: dict[str, tuple[int, list[int], str]] = {
    "no positions at all": (0, [], "000001"),
    "an empty set": (300, [], "ac020001"),
    "a full set": (300, list(range(300)), "ac02ac0201"),
    "one at the front": (1000, [0], "e807010180"),
    "one at the end": (1000, [999], "e8070121b3a0"),
    "a bitmap": (12, [0, 2, 3, 7, 8, 11], "0c0601b190"),
    "a Rice code": (80, [1, 2, 4, 8, 16, 32], "50060820bffe80"),
    "short and long remainders": (40, [3, 4, 11, 17, 30], "280505c49a90"),
    "all but two": (100, [n for n in range(100) if n not in (7, 70)], "6462103fa8"),
}


def random_set(universe: int, count: int, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(universe, count, replace=False))


@st.composite
def index_sets(draw: st.DrawFn) -> tuple[int, list[int]]:
    universe = draw(st.integers(0, 40) | st.sampled_from([127, 128, 5130, 2**20, MAX_UNIVERSE]))
    sets = st.sets(st.integers(0, universe - 1), max_size=min(universe, 60)) if universe else st.just(set[int]())
    return universe, sorted(draw(sets))


@given(index_sets())
def test_every_set_comes_back(case: tuple[int, list[int]]) -> None:
    universe, members = case
    content = encode_indices(np.array(members, np.int64), universe)
    back = decode_indices(content, universe)
    assert back.dtype == np.int64
    assert back.tolist() == members
    assert universe_of(content) == universe


@given(st.integers(1, 3000), st.integers(0, 2**32), st.floats(0, 1))
def test_sets_of_every_density_come_back(universe: int, seed: int, density: float) -> None:
    members = np.flatnonzero(np.random.default_rng(seed).random(universe) < density)
    assert np.array_equal(decode_indices(encode_indices(members, universe), universe), members)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_are_those_of_the_protocol(name: str) -> None:
    universe, members, content = GOLDEN[name]
    assert encode_indices(np.array(members, np.int64), universe).hex() == content
    assert decode_indices(bytes.fromhex(content), universe).tolist() == members


def reference(universe: int, members: list[int], parameter: int) -> bytes:
    """Return the code behind the header, bit by bit as `PROTOCOL.md` says."""
    coded = members if 2 * len(members) <= universe else [n for n in range(universe) if n not in members]
    divisor = parameter if parameter < 4 else (4 + parameter % 4) * 2 ** (parameter // 4) // 2
    width = int(math.log2(divisor))
    num_short = 2 * 2**width - divisor
    heads, last_bits, quotients = "", "", ""
    for before, position in zip([-1, *coded], coded, strict=False):
        quotient, remainder = divmod(position - before - 1, divisor)
        is_short = remainder < num_short
        bits = f"{remainder if is_short else remainder + num_short:0{width + (not is_short)}b}" if divisor > 1 else ""
        heads, last_bits = heads + bits[:width], last_bits + bits[width:]
        quotients += "0" * quotient + "1"
    code = heads + last_bits + quotients
    return bytes(int(code[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(code), 8))


@given(st.integers(1, 120), st.data())
def test_the_bits_are_those_of_the_protocol_with_any_parameter(universe: int, data: st.DataObject) -> None:
    members = sorted(data.draw(st.sets(st.integers(0, universe - 1))))
    content = encode_indices(np.array(members, np.int64), universe)
    assert content[:2] == bytes((universe, len(members)))
    assert content[3:] == reference(universe, members, content[2])
    parameter = data.draw(st.integers(1, 120))
    other = bytes((universe, len(members), parameter)) + reference(universe, members, parameter)
    assert decode_indices(other, universe).tolist() == members


DENSITIES = (0.001, 0.003, 0.01, 0.03, 0.058, 0.1, 0.113, 0.15, 0.2, 0.214, 0.25, 0.3, 0.34, 0.382, 0.42, 0.46, 0.5)


@pytest.mark.parametrize("universe", [5_130, 21_840, 66_954, 300_000, 1_300_000])
@pytest.mark.parametrize("density", DENSITIES)
def test_a_random_set_takes_little_more_than_its_entropy(universe: int, density: float) -> None:
    count = int(universe * density)
    log_sets = math.lgamma(universe + 1) - math.lgamma(count + 1) - math.lgamma(universe - count + 1)
    entropy = log_sets / math.log(2) / 8
    assert entropy_bytes(universe, count) == math.ceil(entropy)
    size = len(encode_indices(random_set(universe, count), universe))
    assert size <= (1.03 if density <= 0.3 else 1.045) * entropy + 8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 10, 20, 50])
@pytest.mark.parametrize("universe", [5_130, 66_954, 1_300_000])
def test_small_sets_keep_to_the_same_bound(universe: int, count: int) -> None:
    for seed in range(10):
        size = len(encode_indices(random_set(universe, count, seed), universe))
        assert size <= 1.03 * math.log2(math.comb(universe, count)) / 8 + 8


@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_all_but_a_few_cost_what_the_few_do(count: int) -> None:
    few = random_set(5_130, count)
    most = np.setdiff1d(np.arange(5_130), few)
    assert len(encode_indices(most, 5_130)) <= len(encode_indices(few, 5_130)) + 1


@given(index_sets())
def test_no_set_takes_more_than_a_bitmap(case: tuple[int, list[int]]) -> None:
    universe, members = case
    assert len(encode_indices(np.array(members, np.int64), universe)) <= 15 + math.ceil(universe / 8)


@pytest.mark.parametrize(("universe", "count"), [(10, 0), (10, 10), (0, 0), (66_954, 6_695), (8, 1)])
def test_the_entropy_is_that_of_all_sets_of_this_size(universe: int, count: int) -> None:
    exact = math.log2(math.comb(universe, count)) / 8
    assert entropy_bytes(universe, count) - exact in (0, pytest.approx(0.5, abs=0.51))


WRONG_INPUT: dict[str, tuple[np.ndarray, int, str]] = {
    "a position twice": (np.array([1, 5, 5]), 10, "expected strictly increasing positions, got 5 after 5"),
    "out of order": (np.array([5, 1]), 10, "expected strictly increasing positions, got 1 after 5"),
    "out of order, unsigned": (np.array([5, 1], np.uint64), 10, "got 1 after 5"),
    "beyond the last": (np.array([1, 10]), 10, "expected positions from 0 to 9, got 10"),
    "far beyond the last": (np.array([1, 2**64 - 1], np.uint64), 10, f"from 0 to 9, got {2**64 - 1}"),
    "before the first": (np.array([-1, 3]), 10, "expected positions from 0 to 9, got -1"),
    "fractions": (np.array([1.0]), 10, r"expected integers \[B\], got float64 \[1\]"),
    "truth values": (np.array([True]), 10, r"expected integers \[B\], got bool \[1\]"),
    "a matrix": (np.zeros((1, 1), int), 10, r"expected integers \[B\], got int64 \[1, 1\]"),
    "a universe too large": (np.array([1]), MAX_UNIVERSE + 1, f"expected at most {MAX_UNIVERSE} positions"),
    "a negative universe": (np.array([], int), -1, "got -1"),
}


@pytest.mark.parametrize("case", WRONG_INPUT)
def test_what_is_no_set_is_not_sent(case: str) -> None:
    indices, universe, text = WRONG_INPUT[case]
    with pytest.raises(EncodeError, match=f"index set: .*{text}"):
        encode_indices(indices, universe)


WRONG_CONTENT: dict[str, tuple[str, int, str]] = {
    "another universe": ("280505c49a90", 41, "expected one among 41 positions, got one among 40"),
    "more members": ("280605c49a90", 40, "expected 6 coded positions"),
    "fewer members": ("280405c49a90", 40, "expected 4 coded positions"),
    "more members than positions": ("282905c49a90", 40, "no set has"),
    "another parameter": ("280506c49a90", 40, "expected 5 coded positions, got 4"),
    "no parameter": ("280500c49a90", 40, "no set has"),
    "a parameter beyond the last": ("280579c49a90", 40, "no set has"),
    "a trailing bit set": ("280505c49a91", 40, "expected 5 coded positions, got 6"),
    "a trailing byte": ("280505c49a9000", 40, "bytes are left over"),
    "many trailing bytes": ("280505c49a90000000", 40, "6 bytes are too many"),
    "a byte less": ("280505c49a", 40, "expected 5 coded positions, got 3"),
    "remainders only": ("280505c4", 40, "too few"),
    "no code": ("280505", 40, "too few"),
    "a byte behind an empty set": ("ac02000100", 300, "bytes are left over"),
    "a number longer than it need be": ("a88000050505c49a90", 40, "longer than it need be"),
    "a number that ends early": ("2885", 40, "ends inside a number"),
    "nothing": ("", 40, "ends inside a number"),
    "a number without an end": ("ffffffffffffffff7f0101", 40, "ends inside a number"),
    "a universe too large": ("81808080080101", 2**31 + 1, "no set has"),
    "a position beyond the last": ("0a01010010", 10, "expected positions below 10"),
    "a remainder beyond the last": ("0a010af8", 10, "expected positions below 10, got"),
}


@pytest.mark.parametrize("case", WRONG_CONTENT)
def test_what_no_sender_makes_is_refused(case: str) -> None:
    content, universe, text = WRONG_CONTENT[case]
    with pytest.raises(DecodeError, match=f"index set: .*{text}|index set: {text}"):
        decode_indices(bytes.fromhex(content), universe)


@given(st.binary(max_size=24), st.integers(0, 200))
@example(b"", 0)
def test_any_bytes_are_a_set_or_refused(content: bytes, universe: int) -> None:
    decode_or_refuse(content, universe)


@given(st.integers(1, 200), st.integers(0, 2**32), st.integers(1, 200), st.binary(max_size=40))
def test_any_bits_behind_a_header_are_a_set_or_refused(universe: int, seed: int, parameter: int, code: bytes) -> None:
    header = bytes((universe & 127, seed % (1 + (universe & 127)), parameter & 127))
    decode_or_refuse(header + code, universe & 127)


@given(index_sets().filter(lambda case: case[0] < MAX_UNIVERSE), st.data())
def test_changed_contents_are_a_set_or_refused(case: tuple[int, list[int]], data: st.DataObject) -> None:
    universe, members = case
    content = bytearray(encode_indices(np.array(members, np.int64), universe))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    decode_or_refuse(bytes(content), universe)


def decode_or_refuse(content: bytes, universe: int) -> None:
    """Decode; anything but a set that can be sent again or a DecodeError fails the test that calls this."""
    try:
        members = decode_indices(content, universe)
    except DecodeError:
        return
    assert np.array_equal(decode_indices(encode_indices(members, universe), universe), members)


@pytest.mark.parametrize("parameter", ["01", "ffffffff07"])
def test_a_header_that_announces_more_than_it_holds_costs_nothing(parameter: str) -> None:
    content = bytes.fromhex("80808080088080808004" + parameter + "ff" * 100)
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(DecodeError):
        decode_indices(content, MAX_UNIVERSE)
    assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    assert time.perf_counter() - started < 0.1
    tracemalloc.stop()


def test_indices_cost_nanoseconds() -> None:
    universe, count = 1_300_000, 130_000
    members = random_set(universe, count)
    content = encode_indices(members, universe)
    for call in (lambda: encode_indices(members, universe), lambda: decode_indices(content, universe)):
        assert min(timeit.repeat(call, number=1, repeat=60)) / count < 40e-9
