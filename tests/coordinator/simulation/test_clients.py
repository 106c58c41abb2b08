"""The clients of a simulation, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.loopback_clients import client_names
from coordinator.simulation.clients import Setup, VirtualClients
from models.data import ClientParts


def test_samples_that_a_client_cannot_use_are_announced_as_a_device_does(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(20):
        folder = tmp_path / "train" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.new("L", (2, 2), number).save(folder / f"{number}.png")
    (tmp_path / "train" / "a" / "4.png").write_bytes(b"no image")
    data = ("data.dataset=images", f"data.root={tmp_path}", "data.num_clients=2", "data.partition=iid")
    config = load(None, ["method.name=tests.models.faulty_method:METHOD", *data, "data.test_fraction=0"])
    spec = config.spec("run", ["a", "b"])
    clients = VirtualClients(Setup(spec, 1, 1 << 20, tmp_path, False, 0), ClientParts(spec), {})
    announced = [clients.announce(name).ready for name in client_names(2)]
    assert sorted((ready.num_train, ready.num_skipped) for ready in announced) == [(9, 1), (10, 0)]
