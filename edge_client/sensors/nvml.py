"""NVML: the energy counters of NVIDIA's cards, or their power where a card does not count (before Volta)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_client.sensors.energy import NoSensorError

DRIVER = "proc/driver/nvidia"


class Card:
    """One card."""

    range_j = 0.0

    def __init__(self, name: str, counts: bool, read: Callable[[], float]) -> None:
        self.name = f"nvml {name}"
        self.counts = counts
        self.read = read


def find(root: Path) -> list[Card]:
    """Return all cards; the library is loaded only where the driver is.

    Raises:
        NoSensorError: there is no card, no library, or none of them says what it draws.
    """
    if not (root / DRIVER).exists():
        raise NoSensorError("no NVIDIA driver")
    try:
        import pynvml
    except ModuleNotFoundError:
        raise NoSensorError("NVML: needs the package nvidia-ml-py: pip install 'protoedge[nvml]'") from None
    try:
        pynvml.nvmlInit()
        return [_card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise NoSensorError(f"NVML: {error}") from None


def _card(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    text = name.decode() if isinstance(name, bytes) else str(name)

    def reader(ask: Callable[[Any], int]) -> Callable[[], float]:
        def read() -> float:
            try:
                return ask(handle) / 1e3
            except nvml.NVMLError as error:
                raise OSError(str(error)) from error

        return read

    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError:
        nvml.nvmlDeviceGetPowerUsage(handle)
        return Card(f"{index} {text}", False, reader(nvml.nvmlDeviceGetPowerUsage))
    return Card(f"{index} {text}", True, reader(nvml.nvmlDeviceGetTotalEnergyConsumption))
