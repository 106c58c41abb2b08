"""What a client says of its device."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.clients.device import Device, read_device


def test_what_is_known_is_told_and_the_rest_left_aside() -> None:
    device = read_device({"machine": "aarch64", "cores": 4, "energy_sources": ["a", "b"], "color": "green"})
    assert device == Device(machine="aarch64", cores=4, energy_sources=["a", "b"])
    assert (device.title, device.sensors) == ("aarch64", "a, b")


@pytest.mark.parametrize(
    "told", [{"cores": -1}, {"memory_bytes": "much"}, {"cpu": "x" * 201}, {"cpu": "\x1b[2J"}, {"energy_sources": "a"}]
)
def test_what_cannot_be_is_no_device(told: dict[str, Any]) -> None:
    assert read_device(told) == Device()


def test_the_programs_are_those_that_are_there() -> None:
    assert Device(system="Linux 6.1", python="3.11.2", torch="2.4").programs == "Linux 6.1, python 3.11.2, torch 2.4"
