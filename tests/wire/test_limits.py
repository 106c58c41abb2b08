"""Texts that are cut to what a message may hold."""

from __future__ import annotations

from wire.limits import shortened


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert shortened("a" * 40, 40) == "a" * 40


def test_of_a_longer_one_the_end_is_kept() -> None:
    told = "the trainer died 4 times: " + "  File somewhere\n" * 50 + "MemoryError"
    cut = shortened(told, 200)
    assert len(cut) == 200
    assert cut.startswith("the trainer died 4 times: ")
    assert cut.endswith("  File somewhere\nMemoryError")
