"""A job behind a pipe that holds what it is to be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from coordinator.config import load
from coordinator.simulation import commands
from coordinator.simulation.clients import Setup
from coordinator.simulation.job import Job
from tests.pipes import HeldPipe
from wire.encoding import encode, pack
from wire.payload import Payload, Tensor


def test_a_value_that_cannot_travel_is_the_methods_fault_and_no_settings(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    settings = ("method.name=tests.models.faulty_method:METHOD", "method.fault=uplink", "data.num_clients=2")
    setup = Setup(load(None, settings).spec("run", [str(digit) for digit in range(10)]), 1, 1 << 20, tmp_path, False, 0)
    downlink = pack(Payload({"mean": Tensor("f32", np.ones(setup.spec.model.feature_dim, np.float32))}))
    asked = (commands.Begin.of(setup, tmp_path, None), commands.Announce(["client-01"]))
    opened, perform = encode(commands.Open(3, 0, 2), downlink), encode(commands.Perform({"client-01": 2}))
    pipe = HeldPipe(commands.COMMANDS, *map(encode, asked), opened, perform)
    Job(cast("Any", pipe)).serve()
    told = "client client-01: uplink of round 3, exchange 'mean': array 'mean': codec f32 cannot hold nan at [0]"
    assert pipe.sent[-1] == commands.Failed("method", told)
