"""Energy from sensors: counters are read at both ends of a part, power is integrated over samples in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class NoSensorError(Exception):
    """There is no sensor of a kind; the text says what was looked for and what came.

    Attributes:
        advice: what to do if one should be used that is there, empty if nothing can be done.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


class Sensor(Protocol):
    """Something that measures power."""

    name: str

    def read(self) -> float:
        """Return joules since some moment if it `counts`, else watts now.

        Raises:
            OSError, ValueError: it cannot be read at present.
        """

    @property
    def counts(self) -> bool:
        """Whether it counts joules itself."""

    @property
    def range_j(self) -> float:
        """Where a counter begins again at 0."""


Note = Callable[[str], None]


class Channel:
    """One sensor, and what it has come to since `begin`; `note` hears once if it does not answer."""

    def __init__(self, sensor: Sensor, note: Note) -> None:
        self.sensor = sensor
        self._note = note
        self._is_noted = False
        self._last: tuple[float, float] | None = None
        self._total_j: float | None = 0.0

    def begin(self, at: float) -> None:
        """Begin a part."""
        self._last, self._total_j = None, 0.0
        self.sample(at)

    def sample(self, at: float) -> None:
        """Take in what the sensor says; a part in which it did not answer is not known."""
        try:
            value = self.sensor.read()
        except (OSError, ValueError) as error:
            self._total_j = None
            self._tell(error)
            return
        if self._last is not None and self._total_j is not None:
            self._total_j += self._between(*self._last, at, value)
        self._last = (at, value)

    def total_j(self) -> float | None:
        """Return the joules from `begin` to the last sample."""
        return self._total_j

    def _tell(self, error: Exception) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._note(f"the sensor {self.sensor.name} does not answer; energy is unknown while that is so: {error}")

    def _between(self, before: float, earlier: float, at: float, value: float) -> float:
        if self.sensor.counts:
            return value - earlier + (self.sensor.range_j if value < earlier else 0.0)
        return (value + earlier) / 2 * (at - before)


class EnergyMeter:
    """The energy of the device in one part of time after the other; `note` hears of each sensor that fails, once."""

    def __init__(self, sensors: Sequence[Sensor], note: Note = lambda text: None) -> None:
        self._channels = [Channel(sensor, note) for sensor in sensors]

    @property
    def has_sensors(self) -> bool:
        """Whether there is anything to sample."""
        return bool(self._channels)

    def begin(self, at: float) -> None:
        """Begin a part at this monotonic time."""
        for channel in self._channels:
            channel.begin(at)

    def sample(self, at: float) -> None:
        """Take in what the sensors say now; what changes between two samples is taken to change evenly."""
        for channel in self._channels:
            channel.sample(at)

    def part_j(self) -> float | None:
        """Return the joules from `begin` to the last sample, None without sensors or if one did not answer."""
        parts = [channel.total_j() for channel in self._channels]
        known = [part for part in parts if part is not None]
        return sum(known) if known and len(known) == len(parts) else None
