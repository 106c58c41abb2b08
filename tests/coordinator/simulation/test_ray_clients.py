"""A cluster that is named is looked for before Ray is asked to join it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from coordinator.config import load
from coordinator.simulation.clients import Setup
from coordinator.simulation.ray_clients import RayClients
from coordinator.simulation.section import SimulationSection
from models.spec import ConfigError


class FakeRay(ModuleType):
    """Joins nothing, and keeps what it was asked to join."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.asked: list[str] = []

    def init(self, address: str, **_: Any) -> None:
        self.asked.append(address)
        raise RuntimeError("no cluster")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def start(address: str, folder: Path) -> RayClients:
    setup = Setup(load(None, []).spec("run", ["0", "1"]), 1, 1 << 20, folder, False, 0)
    return RayClients(setup, cast("Any", None), folder, SimulationSection(executor="ray", ray_address=address), 1.0)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_named_without_asking_ray(ray: FakeRay, tmp_path: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"{scheme}127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ConfigError, match="no cluster"):
            start(address, tmp_path)
    with pytest.raises(ConfigError, match=rf"ray_address = '{address}': .*`ray start --head`.*Connection refused"):
        start(address, tmp_path)
    assert ray.asked == [address]


@pytest.mark.parametrize("address", ["auto", ""])
def test_an_address_of_rays_own_is_left_to_ray(ray: FakeRay, tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="no cluster"):
        start(address, tmp_path)
    assert ray.asked == [address or "local"]
