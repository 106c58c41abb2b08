"""The server half of a simulation."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from coordinator.aggregator.half import Aggregate, Closing, RoundUnusableError
from coordinator.aggregator.local_half import LocalHalf
from coordinator.aggregator.own_half import OwnHalf
from models.methods.api import RoundFailedError
from models.spec import RunSpec
from wire.encoding import pack, unpack
from wire.payload import Payload


def test_what_a_method_does_to_its_arrays_later_changes_no_earlier_state() -> None:
    mean = np.zeros(3)
    half = OwnHalf(cast(RunSpec, None))

    def aggregate(round: int, exchange: str, contributions: object) -> Aggregate:
        mean[:] += 1.0
        return Aggregate(pack(Payload.of_state({"mean": mean})), "hash", {})

    half._half = cast(LocalHalf, SimpleNamespace(aggregate=aggregate))
    closing = Closing(1, "only", list, 0)
    first = asyncio.run(half.aggregate(closing, lambda: None))
    asyncio.run(half.aggregate(closing, lambda: None))
    assert unpack(first.state).arrays["mean"].tolist() == [1.0] * 3


def test_why_a_round_failed_is_told_in_one_line() -> None:
    half = OwnHalf(cast(RunSpec, None))

    def aggregate(round: int, exchange: str, contributions: object) -> Aggregate:
        raise RoundFailedError("the weights are\n[0, 0]")

    half._half = cast(LocalHalf, SimpleNamespace(aggregate=aggregate))
    with pytest.raises(RoundUnusableError, match=r"^the weights are \[0, 0\]$"):
        asyncio.run(half.aggregate(Closing(1, "only", list, 0), lambda: None))
