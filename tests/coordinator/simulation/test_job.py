"""A job behind a pipe that holds what it is to be asked."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from coordinator.config import load
from coordinator.simulation import commands
from coordinator.simulation.clients import Setup, VirtualClients
from coordinator.simulation.job import Job
from coordinator.simulation.jobs import _client_of
from tests.pipes import HeldPipe
from wire.encoding import encode, pack
from wire.payload import Payload, Tensor


def test_a_disk_that_is_full_interrupts_a_run_and_is_no_fault_of_its_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def announce(clients: VirtualClients, client: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "state-1.safetensors")

    monkeypatch.setattr(VirtualClients, "announce", announce)
    settings = ("data.dataset=npz", f"data.root={tmp_path}/data.npz", "data.num_clients=2", "data.partition=iid")
    np.savez(tmp_path / "data.npz", x=np.zeros((40, 4), np.float32), y=np.arange(40) % 2)
    setup = Setup(load(None, settings).spec("run", ["a", "b"]), 1, 1 << 20, tmp_path, True, 0)
    asked = (commands.Begin.of(setup, tmp_path, None), commands.Announce(["client-01"]))
    pipe = HeldPipe(commands.COMMANDS, *map(encode, asked))
    Job(cast("Any", pipe)).serve()
    told = "state-1.safetensors: No space left on device; free some disk space"
    assert pipe.sent == [commands.Failed("disk", told)]
    with pytest.raises(OSError, match=told):
        _client_of(encode(pipe.sent[0]))


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
