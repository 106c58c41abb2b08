"""What a client's daemon measures beside its work: bytes on its connections, memory, and energy task by task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from edge_client.sensors.energy import EnergyMeter
from wire.encoding import Frames
from wire.messages import Vitals
from wire.sockets.memory import PeakMemory, Pid
from wire.sockets.zeromq import Dealer
from wire.timing import microseconds, split_timing

SAMPLE_EVERY_S = 1.0
"""How often the sensors are read while there is a task."""


class Traffic(NamedTuple):
    """What the kernel has counted on connections."""

    sent_bytes: int = 0
    received_bytes: int = 0
    num_retransmits: int = 0

    def plus(self, dealer: Dealer | None) -> Traffic:
        """Return this and what a connection has come to, if that is known."""
        counters = dealer.counters() if dealer is not None else None
        if counters is None:
            return self
        return Traffic(
            self.sent_bytes + counters.sent_bytes,
            self.received_bytes + counters.received_bytes,
            self.num_retransmits + counters.num_retransmits,
        )


class Took(NamedTuple):
    """What a task took by the daemon's measure, as a timing tells it."""

    client_peak_rss_bytes: int = 0
    trainer_peak_rss_bytes: int = 0
    energy_j: float = -1.0


class Meter:
    """The measurements of one daemon, for one run after the other; times are those of its event loop."""

    def __init__(self, trainer_pid: Callable[[], Pid], energy: EnergyMeter) -> None:
        self._own = PeakMemory(lambda: "self")
        self._trainer_pid = trainer_pid
        self._trainer = PeakMemory(trainer_pid)
        self._gpu_peak_bytes = 0
        self._energy = energy
        self._dealer: Dealer | None = None
        self._is_fresh = False
        self._before = Traffic()
        self._task_came_at: float | None = None
        self._task: tuple[int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._took = Took()

    def linked(self, dealer: Dealer) -> None:
        """Count on with a new connection; the one before is closed."""
        self._before = self._before.plus(self._dealer)
        self._dealer, self._is_fresh = dealer, True

    def answered(self) -> None:
        """The coordinator has welcomed on this connection, or said that there is no run: it is not the next one's."""
        self._is_fresh = False

    def joined(self, welcome_bytes: int) -> None:
        """Begin anew with a run: with all of a connection that is fresh, and with its welcome on any other."""
        self._trainer = PeakMemory(self._trainer_pid)
        self._gpu_peak_bytes = 0
        self.stop()
        if self._is_fresh:
            self._before = Traffic()
        else:
            so_far = Traffic().plus(self._dealer)
            self._before = Traffic(-so_far.sent_bytes, welcome_bytes - so_far.received_bytes, -so_far.num_retransmits)

    def peaks_bytes(self) -> tuple[int, int]:
        """Return the peak resident memory of daemon and trainer so far, 0 if unknown."""
        return self._own.overall_bytes() or 0, self._trainer.overall_bytes() or 0

    def vitals(self) -> Vitals:
        """Return what has been counted for the run by now."""
        traffic = self._before.plus(self._dealer)
        return Vitals(*traffic, gpu_peak_bytes=self._gpu_peak_bytes, clock_s=time.time())

    def loaded(self) -> None:
        """The trainer is ready: what memory that took counts in no task, but for the one in which it was restarted."""
        if self._task is None:
            self._own.take_bytes()
            self._trainer.take_bytes()

    def task_came(self, round: int, exchange: int, at: float) -> None:
        """Begin to measure a task, in place of one that is abandoned."""
        self._task, self._task_came_at, self._took = (round, exchange), at, Took()
        if self._energy.has_sensors:
            self._energy.begin(at)
            self._sample_later()

    def uplink_made(self, round: int, exchange: int, at: float) -> None:
        """End what is measured of a task, but for how long its update is held; memory is that since the one before.

        An uplink that comes once more, or late of an abandoned task, ends nothing.
        """
        if self._task != (round, exchange):
            return
        self.stop()
        self._energy.sample(at)
        energy_j = self._energy.part_j()
        own_bytes, trainer_bytes = self._own.take_bytes(), self._trainer.take_bytes()
        self._took = Took(own_bytes or 0, trainer_bytes or 0, -1.0 if energy_j is None else energy_j)

    def stop(self) -> None:
        """Measure the task at hand no more: it is done, or the run is left."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def told(self, uplink: Frames, at: float) -> Frames:
        """Return an uplink that is about to go with what was measured put into the timing behind it, if it has one."""
        frames, timing = split_timing(uplink)
        if timing is None or self._task_came_at is None:
            return uplink
        self._gpu_peak_bytes = max(self._gpu_peak_bytes, timing.gpu_peak_bytes)
        told = timing._replace(held_us=microseconds(at - self._task_came_at), **self._took._asdict())
        return [*frames, told.frame()]

    def _sample_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_EVERY_S, self._sample)

    def _sample(self) -> None:
        self._energy.sample(asyncio.get_running_loop().time())
        self._sample_later()
