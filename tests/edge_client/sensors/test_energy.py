"""From readings to joules."""

from __future__ import annotations

import math

import pytest

from edge_client.sensors.energy import EnergyMeter


class Scripted:
    """A sensor that says one thing after the other; None: it does not answer."""

    name = "scripted"

    def __init__(self, *values: float | None, counts: bool = False, range_j: float = math.inf) -> None:
        self._values = list(values)
        self.counts = counts
        self.range_j = range_j

    def read(self) -> float:
        value = self._values.pop(0)
        if value is None:
            raise OSError("no answer")
        return value


def measured(*sensors: Scripted, at: tuple[float, ...] = (10.0, 11.0, 13.0)) -> float | None:
    meter = EnergyMeter(sensors)
    meter.begin(at[0])
    for moment in at[1:]:
        meter.sample(moment)
    return meter.part_j()


def test_power_is_integrated_over_the_samples() -> None:
    assert measured(Scripted(4.0, 8.0, 2.0)) == 6.0 * 1 + 5.0 * 2


def test_a_counter_needs_its_ends_alone_and_begins_again_at_zero() -> None:
    assert measured(Scripted(100.0, 130.0, 131.0, counts=True)) == 31.0
    assert measured(Scripted(100.0, 10.0, 12.0, counts=True, range_j=120.0)) == 32.0


def test_sensors_are_added_up() -> None:
    assert measured(Scripted(1.0, 1.0, 1.0), Scripted(0.0, 1.0, 2.0, counts=True)) == 5.0


@pytest.mark.parametrize("values", [(None, 1.0, 1.0), (1.0, None, 1.0), (1.0, 1.0, None)])
def test_a_part_in_which_a_sensor_did_not_answer_is_unknown(values: tuple[float | None, ...]) -> None:
    assert measured(Scripted(*values), Scripted(1.0, 1.0, 1.0)) is None


def test_a_sensor_that_fails_is_told_of_once() -> None:
    told: list[str] = []
    meter = EnergyMeter([Scripted(1.0, None, None, 1.0, None), Scripted(*5 * [1.0])], told.append)
    meter.begin(0.0)
    assert not told
    for at in range(1, 5):
        meter.sample(at)
    assert told == ["the sensor scripted does not answer; energy is unknown while that is so: no answer"]


def test_the_next_part_begins_anew() -> None:
    meter = EnergyMeter([Scripted(None, 2.0, 4.0)])
    meter.begin(0.0)
    assert meter.part_j() is None
    meter.begin(5.0)
    meter.sample(6.0)
    assert meter.part_j() == 3.0


def test_without_sensors_energy_is_unknown_and_not_zero() -> None:
    assert measured() is None
    assert not EnergyMeter([]).has_sensors
