"""Whatever a method's own code says, and whatever it returns, is told in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.methods.faults import MethodError, asked, made_by, shown
from models.spec import ConfigError
from wire.payload import EncodeError, RecordError, UnfitArrayError

LINES = f"got {np.zeros((3, 3))}"

LINE = "got [[0. 0. 0.] [0. 0. 0.] [0. 0. 0.]]"


@pytest.mark.parametrize("kind", [RecordError, UnfitArrayError, EncodeError, MethodError])
def test_a_fault_begins_with_where_it_comes_from_and_is_one_line(kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised, made_by("uplink"):
        raise kind(LINES)
    assert str(raised.value) == f"uplink: {LINE}"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError(LINES), LINE),
        (MethodError(LINES), f"check: {LINE}"),
        (ValueError(LINES), f"check: ValueError: {LINE} (test_faults.py, line "),
        (RecordError(LINES), f"check: {LINE} (test_faults.py, line "),
    ],
)
def test_so_is_whatever_code_raises_that_is_asked_for_something(error: Exception, told: str) -> None:
    with pytest.raises((ConfigError, MethodError)) as raised, asked("check"):
        raise error
    assert str(raised.value).startswith(told)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.zeros((3, 50)), "an array of shape (3, 50)"),
        (
            [np.zeros(9), np.zeros(9)],
            "[array([0., 0., 0., 0., 0., 0., 0., 0., 0.]), array([0., 0., 0., 0., 0., 0., 0.,",
        ),
        ("good", "'good'"),
        (None, "None"),
    ],
)
def test_a_value_is_shown_in_a_few_words(value: Any, told: str) -> None:
    assert shown(value) == told
    assert "\n" not in shown([np.zeros((9, 9))])
