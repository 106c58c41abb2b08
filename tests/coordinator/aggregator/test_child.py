"""The aggregator behind a pipe that holds what it is to be asked."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from coordinator.aggregator import commands
from coordinator.aggregator.child import Aggregator
from coordinator.config import load
from tests.pipes import HeldPipe
from wire.encoding import EMPTY_PACKED, encode


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("downlink", "downlink of round 2, exchange 'mean': array 'mean': codec f32 cannot hold nan at [0]"),
        ("state", "global state after round 2, exchange 'mean': array 'mean': codec f32 cannot hold inf at [0]"),
        (
            "metrics",
            "aggregate of round 2, exchange 'mean': expected a mapping of metrics to log, {} for none, got NoneType",
        ),
    ],
)
def test_a_fault_of_the_server_half_is_told_with_its_place(fault: str, told: str) -> None:
    settings = ("method.name=tests.models.faulty_method:METHOD", f"method.fault={fault}")
    begin = commands.Begin(msgspec.to_builtins(load(None, settings).spec("run", ["a", "b"])), "", False, 0)
    asked = commands.Configure(2, "mean") if fault == "downlink" else commands.Aggregate(2, "mean", 0)
    pipe = HeldPipe(commands.COMMANDS, encode(begin, EMPTY_PACKED), encode(asked))
    Aggregator(cast("Any", pipe)).serve()
    assert pipe.sent[-1] == commands.Unusable(told, round_only=False)
