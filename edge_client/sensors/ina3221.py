"""INA3221, the power monitor of Jetson boards, by sysfs: as a hwmon device, or as an iio device on JetPack 4."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from edge_client.sensors.energy import NoSensorError
from edge_client.sensors.rails import whole

HWMON, IIO = "sys/class/hwmon", "sys/bus/i2c/drivers/ina3221x"

Watts = Callable[[], float]


class Rail:
    """The power of one rail."""

    counts = False
    range_j = 0.0

    def __init__(self, rail: str, watts: Watts) -> None:
        self.name = f"ina3221 {rail}"
        self.read = watts


def find(root: Path) -> list[Rail]:
    """Return the rails that make up all that the board draws.

    Raises:
        NoSensorError: there is no INA3221 that has a rail.
    """
    rails = dict([*_of_hwmon(root / HWMON), *_of_iio(root / IIO)])
    found = [Rail(rail, rails[rail]) for rail in whole(rails)]
    if not found:
        raise NoSensorError("no INA3221 in /sys/class/hwmon")
    return found


def _of_hwmon(folder: Path) -> Iterator[tuple[str, Watts]]:
    for device in sorted(folder.glob("hwmon*")):
        if _text(device / "name") != "ina3221":
            continue
        for label in sorted(device.glob("in*_label")):
            number = label.name.removeprefix("in").removesuffix("_label")
            volts, amperes = device / f"in{number}_input", device / f"curr{number}_input"
            if amperes.exists():
                yield _text(label), functools.partial(_product, volts, amperes)


def _of_iio(folder: Path) -> Iterator[tuple[str, Watts]]:
    for name in sorted(folder.glob("*/iio:device*/rail_name_*")):
        power = name.with_name(f"in_power{name.name.removeprefix('rail_name_')}_input")
        yield _text(name), functools.partial(_thousandth, power)


def _product(millivolts: Path, milliamperes: Path) -> float:
    return _number(millivolts) * _number(milliamperes) / 1e6


def _thousandth(milliwatts: Path) -> float:
    return _number(milliwatts) / 1e3


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> float:
    return float(path.read_text())
