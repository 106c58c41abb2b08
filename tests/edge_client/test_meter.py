"""What a client's daemon puts into the figures that it sends."""

from __future__ import annotations

import asyncio
import os
from typing import cast

from edge_client.meter import Meter
from edge_client.sensors.energy import EnergyMeter
from wire.sockets.tcp import Counters
from wire.sockets.zeromq import Dealer
from wire.timing import Timing, split_timing

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


def test_connections_are_added_up_until_the_run_is_left() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    linked(meter, 100, 10)
    linked(meter, 1000, 200)
    vitals = meter.vitals()
    assert (vitals.sent_bytes, vitals.received_bytes, vitals.num_retransmits) == (1100, 210, 2)
    assert vitals.clock_s > 0
    meter.left()
    linked(meter, 7, 5)
    assert meter.vitals().sent_bytes == 7


def test_a_run_on_a_connection_that_was_in_none_counts_from_its_welcome_on() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    linked(meter, 100, 1000)
    meter.left()
    meter.joined(welcome_bytes=300)
    for _ in range(2):
        vitals = meter.vitals()
        assert (vitals.sent_bytes, vitals.received_bytes, vitals.num_retransmits) == (0, 300, 0)
        meter.joined(welcome_bytes=200)  # of a run that it is in already


def test_an_uplink_goes_with_what_the_daemon_measured() -> None:
    async def main() -> None:
        meter = Meter(os.getpid, EnergyMeter([Steady()]))
        meter.task_came(100.0)
        meter.uplink_made(102.0)
        frames, timing = split_timing(meter.told([b"header", b"buffer", MADE.frame()], 102.5))
        assert timing is not None
        assert (frames, timing[:4]) == ([b"header", b"buffer"], MADE[:4])
        assert (timing.held_us, timing.energy_j, timing.gpu_peak_bytes) == (2_500_000, 6.0, 70)
        assert timing.client_peak_rss_bytes > 0
        assert meter.vitals().gpu_peak_bytes == 70
        again = split_timing(meter.told([b"header", b"buffer", MADE.frame()], 109.0))[1]
        assert again == timing._replace(held_us=9_000_000)  # sent again after a reconnect

    asyncio.run(main())


def test_without_sensors_energy_is_unknown() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    meter.task_came(0.0)
    meter.uplink_made(1.0)
    timing = split_timing(meter.told([b"", b"", MADE.frame()], 1.0))[1]
    assert timing is not None
    assert timing.energy_j < 0


def test_an_uplink_that_has_no_timing_or_no_task_goes_as_it_is() -> None:
    meter = Meter(lambda: None, EnergyMeter([]))
    assert meter.told([b"a", b"b", MADE.frame()], 1.0) == [b"a", b"b", MADE.frame()]
    meter.task_came(0.0)
    assert meter.told([b"a", b"b"], 1.0) == [b"a", b"b"]
