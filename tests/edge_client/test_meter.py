"""What a client's daemon puts into the figures that it sends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import cast

import pytest

from edge_client.meter import Meter
from edge_client.sensors.energy import EnergyMeter
from wire.sockets.tcp import Counters
from wire.sockets.zeromq import Dealer
from wire.timing import Timing, split_timing

PLACE = (1, 0)
MADE = Timing(1, 2, 3, 4, gpu_peak_bytes=70)


class Link:
    """A connection of which the kernel says this."""

    def __init__(self, sent: int, received: int) -> None:
        self._counters = Counters(sent, received, 1, 0.01, sent, 0, 0.0)

    def counters(self) -> Counters:
        return self._counters


class Steady:
    """A sensor of 3 watts."""

    name, counts, range_j = "steady", False, 0.0

    def read(self) -> float:
        return 3.0


def linked(meter: Meter, sent: int, received: int) -> None:
    meter.linked(cast("Dealer", Link(sent, received)))


def counted(meter: Meter) -> tuple[int, int, int]:
    vitals = meter.vitals()
    assert vitals.clock_s > 0
    return vitals.sent_bytes, vitals.received_bytes, vitals.num_retransmits


def welcomed(meter: Meter, welcome_bytes: int = 0) -> None:
    meter.joined(welcome_bytes)
    meter.answered()


def test_connections_are_added_up_until_the_next_run() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    linked(meter, 100, 10)
    welcomed(meter)
    linked(meter, 1000, 200)
    meter.answered()
    assert counted(meter) == (1100, 210, 2)
    linked(meter, 7, 5)
    welcomed(meter)
    assert counted(meter) == (7, 5, 1)


def test_a_run_on_a_connection_that_waited_for_it_counts_from_its_welcome_on() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    linked(meter, 100, 1000)
    meter.answered()
    welcomed(meter, welcome_bytes=300)
    assert counted(meter) == (0, 300, 0)


def test_a_run_on_the_connection_of_the_one_before_counts_from_its_welcome_on() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    linked(meter, 100, 1000)
    welcomed(meter, welcome_bytes=300)
    assert counted(meter) == (100, 1000, 1)
    linked(meter, 50, 500)
    meter.answered()
    welcomed(meter, welcome_bytes=200)
    assert counted(meter) == (0, 200, 0)


def test_peaks_of_the_run_before_are_not_those_of_the_next() -> None:
    async def main() -> None:
        pids: list[int | None] = [os.getpid()]
        meter = Meter(lambda: pids[0], EnergyMeter([]))
        linked(meter, 0, 0)
        welcomed(meter)
        meter.loaded()
        meter.task_came(*PLACE, 100.0)
        meter.told([b"", b"", MADE.frame()], 101.0)
        assert meter.peaks_bytes()[1] > 0
        assert meter.vitals().gpu_peak_bytes == 70
        pids[0] = None
        welcomed(meter)
        assert (meter.peaks_bytes()[1], meter.vitals().gpu_peak_bytes) == (0, 0)

    asyncio.run(main())


def test_an_uplink_goes_with_what_the_daemon_measured() -> None:
    async def main() -> None:
        meter = Meter(os.getpid, EnergyMeter([Steady()]))
        meter.loaded()
        meter.task_came(*PLACE, 100.0)
        meter.uplink_made(*PLACE, 102.0)
        buffer = memoryview(b"buffer")
        frames, timing = split_timing(meter.told([b"header", buffer, MADE.frame()], 102.5))
        assert timing is not None
        assert (frames, timing[:4]) == ([b"header", b"buffer"], MADE[:4])
        assert frames[1] is buffer
        assert (timing.held_us, timing.energy_j, timing.gpu_peak_bytes) == (2_500_000, 6.0, 70)
        assert timing.client_peak_rss_bytes > 0
        assert meter.vitals().gpu_peak_bytes == 70
        again = split_timing(meter.told([b"header", b"buffer", MADE.frame()], 109.0))[1]
        assert again == timing._replace(held_us=9_000_000)  # sent again after a reconnect

    asyncio.run(main())


class Memory:
    """A process that takes so many bytes more with each look at its peak."""

    def __init__(self, pid: object) -> None:
        self.looks = 0

    def take_bytes(self) -> int:
        self.looks += 1
        return self.looks


def test_memory_is_looked_at_once_for_each_task_and_not_for_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_client.meter.PeakMemory", Memory)
    meter = Meter(lambda: None, EnergyMeter([]))
    meter.loaded()
    for number in range(3):
        meter.task_came(*PLACE, number)
        meter.loaded()  # once more in a task: it has found other samples, or was restarted
        meter.uplink_made(*PLACE, number + 0.5)
        timing = split_timing(meter.told([b"", b"", MADE.frame()], number + 1.0))[1]
        assert timing is not None
        assert (timing.client_peak_rss_bytes, timing.trainer_peak_rss_bytes) == (2 + number, 2 + number)


def test_an_uplink_that_is_handed_over_again_leaves_the_figures_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a trainer that was restarted while its uplink is held."""
    monkeypatch.setattr("edge_client.meter.PeakMemory", Memory)
    meter = Meter(lambda: None, EnergyMeter([]))
    meter.task_came(*PLACE, 0.0)
    meter.uplink_made(*PLACE, 1.0)
    before = meter.told([b"", b"", MADE.frame()], 9.0)
    meter.uplink_made(*PLACE, 5.0)
    assert meter.told([b"", b"", MADE.frame()], 9.0) == before


def test_a_late_uplink_of_an_abandoned_task_does_not_end_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_client.meter.PeakMemory", Memory)
    meter = Meter(lambda: None, EnergyMeter([]))
    meter.task_came(*PLACE, 0.0)
    meter.task_came(2, 0, 10.0)
    meter.uplink_made(*PLACE, 11.0)
    meter.uplink_made(2, 0, 14.0)
    timing = split_timing(meter.told([b"", b"", MADE.frame()], 14.0))[1]
    assert timing is not None
    assert timing.trainer_peak_rss_bytes == 1


@pytest.mark.parametrize("leave", [Meter.stop, lambda meter: meter.joined(0)])
def test_sensors_are_sampled_until_the_run_is_left(leave: Callable[[Meter], None]) -> None:
    async def main() -> bool:
        meter = Meter(lambda: None, EnergyMeter([Steady()]))
        meter.task_came(*PLACE, 0.0)
        timer = meter._timer
        assert timer is not None
        leave(meter)
        return timer.cancelled()

    assert asyncio.run(main())


def test_without_sensors_energy_is_unknown() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    meter.task_came(*PLACE, 0.0)
    meter.uplink_made(*PLACE, 1.0)
    timing = split_timing(meter.told([b"", b"", MADE.frame()], 1.0))[1]
    assert timing is not None
    assert timing.energy_j < 0


def test_an_uplink_that_has_no_timing_or_no_task_goes_as_it_is() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    assert meter.told([b"a", b"b", MADE.frame()], 1.0) == [b"a", b"b", MADE.frame()]
    meter.task_came(*PLACE, 0.0)
    assert meter.told([b"a", b"b"], 1.0) == [b"a", b"b"]
