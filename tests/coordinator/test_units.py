"""Figures as people read them."""

import pytest

from coordinator.units import show_bytes, show_count, show_joules, show_mebibytes, show_numbers, show_seconds, show_skew


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (8397, "8.2 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_bytes(size: int, text: str) -> None:
    assert show_bytes(size) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0.0 ms"),
        (0.0042, "4.2 ms"),
        (0.84, "0.84 s"),
        (59.994, "59.99 s"),
        (59.996, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_seconds(duration: float, text: str) -> None:
    assert show_seconds(duration) == text


def test_counts_and_memory() -> None:
    assert (show_count(20_000), show_mebibytes(1536 * 2**20)) == ("20,000", "1,536.0 MiB")


@pytest.mark.parametrize(
    ("energy_j", "text"),
    [
        (0.0042, "4.2 mJ"),
        (0.52, "0.52 J"),
        (9.994, "9.99 J"),
        (31.04, "31.0 J"),
        (9999.4, "9,999.4 J"),
        (42e3, "42.0 kJ"),
    ],
)
def test_energy(energy_j: float, text: str) -> None:
    assert show_joules(energy_j) == text


@pytest.mark.parametrize(("skew_s", "text"), [(0.0012, "+1.2 ms"), (-3.0, "-3.00 s"), (0.0, "+0.0 ms")])
def test_skew_says_which_clock_is_ahead(skew_s: float, text: str) -> None:
    assert show_skew(skew_s) == text


def test_numbers_that_follow_each_other_are_a_span() -> None:
    assert show_numbers([]) == ""
    assert show_numbers([3]) == "3"
    assert show_numbers([1, 4, 5, 6, 7, 9]) == "1, 4 to 7, 9"
