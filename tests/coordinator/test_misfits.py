"""Counts of refused updates: too many leave a client out, whichever process of the run counted them."""

from __future__ import annotations

from coordinator.misfits import Misfits


def test_a_client_is_left_out_at_the_last_of_too_many() -> None:
    misfits = Misfits(2, {})
    misfits.add("ann")
    assert misfits.left_out == {}
    misfits.add("bob")
    misfits.add("ann")
    assert misfits.left_out == {
        "ann": "ann is left out of the run: [gate] max_refusals = 2 of its updates were refused"
    }


def test_counts_go_on_from_those_of_an_earlier_process() -> None:
    earlier = Misfits(3, {"ann": 3, "bob": 2})
    assert list(earlier.left_out) == ["ann"]
    earlier.add("bob")
    assert list(earlier.left_out) == ["ann", "bob"]
    assert earlier.counts == {"ann": 3, "bob": 3}
