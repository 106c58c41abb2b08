"""What a device's own sensors say of its power and energy; the first kind that answers is used.

A board's own sensors (Jetson) know all that it draws, so nothing else is added to them; elsewhere the processor's and
the graphics cards' counters are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edge_client.sensors import ina3221, nvml, rapl, tegrastats
from edge_client.sensors.energy import NoSensorError, Sensor

ROOT = Path("/")


class Found(NamedTuple):
    """The sensors of a device, or why there are none; and what to do if one should be used that is there."""

    sensors: Sequence[Sensor]
    reason: str = ""
    advice: str = ""


def told_of(found: Found) -> dict[str, Any]:
    """Return what a device tells of its sensors."""
    if found.sensors:
        return {"energy_sources": [sensor.name for sensor in found.sensors]}
    return {"energy_reason": found.reason}


def find_sensors(root: Path = ROOT) -> Found:
    """Return the sensors of this device; `root` is where `sys` and `proc` are."""
    reasons: list[str] = []
    advice = ""
    for kinds in ((ina3221.find,), (tegrastats.find,), (rapl.find, nvml.find)):
        sensors: list[Sensor] = []
        for find in kinds:
            try:
                sensors += find(root)
            except NoSensorError as error:
                reasons.append(str(error))
                advice = advice or error.advice
        if sensors:
            return Found(sensors, advice=advice)
    return Found((), "; ".join(reasons), advice)
