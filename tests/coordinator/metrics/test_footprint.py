"""Memory and energy of clients, added up."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.metrics.footprint import Footprints
from coordinator.metrics.tally import ClientLine, Traffic


def booked(*lines: tuple[int, str, float | None, int], hosts: dict[str, str] | None = None) -> Footprints:
    """Book lines of round, client, joules and the trainer's peak."""
    found = Footprints()
    found.devices.update({client: {"host": host} for client, host in (hosts or {}).items()})
    for round, client, energy_j, peak in lines:
        measured: Any = {"energy_j": energy_j, "trainer_peak_rss_bytes": peak}
        found.book(ClientLine(round, "x", 0, 0, client, "accepted", Traffic(), Traffic(), **measured))
    return found


def test_energy_is_summed_and_peaks_are_the_largest() -> None:
    found = booked((1, "ann", 2.0, 30), (1, "bob", 3.0, 40), (2, "ann", 5.0, 20))
    assert found.energy() == {"total_j": 10.0, "measured_j": 10.0}
    ann = found.client("ann")
    assert (ann["energy_j"], ann["trainer_peak_rss_bytes"], ann["gpu_peak_bytes"]) == (7.0, 30, None)


def test_the_peak_on_a_gpu_is_the_largest_of_any_client() -> None:
    found = Footprints()
    assert found.gpu_peak_bytes() is None
    for client, peak in (("ann", 50), ("bob", 70), ("cat", None)):
        found.book(ClientLine(1, "x", 0, 0, client, "accepted", Traffic(), Traffic(), gpu_peak_bytes=peak))
    assert found.gpu_peak_bytes() == 70


def test_sensors_of_one_machine_are_counted_once() -> None:
    hosts = {"ann": "m1", "bob": "m1", "cat": "m2"}
    found = booked((1, "ann", 2.0, 0), (1, "bob", 3.0, 0), (1, "cat", 4.0, 0), (2, "bob", 1.0, 0), hosts=hosts)
    assert found.energy()["total_j"] == 3.0 + 4.0 + 1.0


def test_what_was_measured_in_part_has_no_total_and_a_reason() -> None:
    found = booked((1, "ann", 2.0, 0), (1, "bob", None, 0))
    assert found.energy() == {"total_j": None, "measured_j": 2.0}
    assert found.energy_reason() == "bob: its sensors did not answer all the time"
    found.devices["bob"] = {"energy_reason": "no RAPL"}
    assert found.energy_reason() == "bob: no RAPL"


@pytest.mark.parametrize(("down", "total_j"), [(Traffic(encoded_bytes=60), None), (Traffic(), 2.0)])
def test_a_straggler_has_taken_energy_and_who_was_never_asked_has_not(down: Traffic, total_j: float | None) -> None:
    found = booked((1, "ann", 2.0, 0))
    found.book(ClientLine(1, "x", 0, 0, "bob", "missing", Traffic(), down))
    assert found.energy() == {"total_j": total_j, "measured_j": 2.0}
    if total_j is None:
        assert found.energy_reason() == "bob: it has not answered every task"


def test_a_refused_update_has_taken_energy_that_nobody_knows() -> None:
    found = booked((1, "ann", 2.0, 0))
    found.book(ClientLine(1, "x", 0, 0, "bob", "refused", Traffic(), Traffic(encoded_bytes=60)))
    assert found.energy() == {"total_j": None, "measured_j": 2.0}
    assert found.energy_reason() == "bob: an update of it was refused"


def test_nothing_measured_is_unknown_and_not_zero() -> None:
    assert booked((1, "bob", None, 0)).energy() == {"total_j": None, "measured_j": None}
    assert Footprints().energy() == {"total_j": None, "measured_j": None}
