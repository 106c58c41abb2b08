"""What clients took beside time and bytes, added up over a run: energy, and the peaks of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.metrics.tally import ClientLine

PEAKS_OF_CLIENTS = ("client_peak_rss_bytes", "trainer_peak_rss_bytes", "gpu_peak_bytes")
"""The peaks of memory that a client's line holds."""


class Footprint:
    """One client's: its largest peaks, and its energy in the exchanges in which it was measured.

    `unmeasured` says why it was not in others for which the client had a task.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, int | None] = dict.fromkeys(PEAKS_OF_CLIENTS)
        self.measured_j: float | None = None
        self.unmeasured = ""

    def book(self, line: ClientLine) -> None:
        """Add one exchange."""
        for name in PEAKS_OF_CLIENTS:
            self.peaks[name] = max(self.peaks[name] or 0, getattr(line, name) or 0) or None
        if line.energy_j is not None:
            self.measured_j = (self.measured_j or 0.0) + line.energy_j
        elif line.status == "accepted":
            self.unmeasured = "its sensors did not answer all the time"
        elif line.down.encoded_bytes:
            is_refused = line.status == "refused"
            why = "an update of it was refused" if is_refused else "it has not answered every task"
            self.unmeasured = self.unmeasured or why


class Footprints:
    """All clients', by client id.

    Clients on one machine measure the same sensors, so of theirs the largest in an exchange counts for the whole.
    """

    def __init__(self) -> None:
        self.devices: dict[str, Mapping[str, Any]] = {}
        self._clients: dict[str, Footprint] = {}
        self._exchange = (0, 0)
        self._by_host: dict[str, float] = {}
        self._closed_j = 0.0

    def book(self, line: ClientLine) -> None:
        """Add a client's exchange; those of one exchange follow each other."""
        self._clients.setdefault(line.client, Footprint()).book(line)
        if self._exchange != (line.round, line.exchange_index):
            self._closed_j += sum(self._by_host.values())
            self._exchange, self._by_host = (line.round, line.exchange_index), {}
        if line.energy_j is not None:
            host = str(self.devices.get(line.client, {}).get("host", line.client))
            self._by_host[host] = max(line.energy_j, self._by_host.get(host, 0.0))

    def client(self, client: str) -> dict[str, Any]:
        """Return a client's figures and its device, as a summary holds them."""
        found = self._clients.get(client, Footprint())
        return {**found.peaks, "energy_j": found.measured_j, "device": dict(self.devices.get(client, {}))}

    def gpu_peak_bytes(self) -> int | None:
        """Return the largest peak of any client's trainer on a GPU, None if none has said that it used one."""
        return max((found.peaks["gpu_peak_bytes"] or 0 for found in self._clients.values()), default=0) or None

    def energy(self) -> dict[str, float | None]:
        """Return the energy of all devices: in whole if all of it was measured, and as far as it was."""
        parts = [found.measured_j for found in self._clients.values()]
        measured_j = None if all(part is None for part in parts) else self._closed_j + sum(self._by_host.values())
        is_whole = not any(found.unmeasured for found in self._clients.values())
        return {"total_j": measured_j if is_whole else None, "measured_j": measured_j}

    def energy_reason(self) -> str:
        """Return why the energy of a run is not known."""
        for client, found in sorted(self._clients.items()):
            if found.unmeasured:
                reason = self.devices.get(client, {}).get("energy_reason")
                return f"{client}: {reason or found.unmeasured}"
        return "no client has measured any"
