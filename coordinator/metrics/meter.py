"""What is measured beside the run's messages: each client's connections, the devices, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.clients.device import read_device
from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import Links
from coordinator.store.record import RunRecord
from wire.encoding import Frames
from wire.framing import framed_bytes
from wire.messages import Goodbye, Message, Ping, Ready


class Meter:
    """The measurements of one run while its daemon runs."""

    def __init__(self, record: RunRecord, ledger: Ledger, links: Links, is_encrypted: bool) -> None:
        self._record = record
        self._ledger = ledger
        self.links = links
        self._is_encrypted = is_encrypted
        self.peaks: dict[str, int] = {}
        """The largest peak memory of any client so far, by the name that a summary has for it."""

    def joined(self, client: str, route: bytes, device: Mapping[str, Any]) -> None:
        """Take a client's new connection, and what it says of its device."""
        self.links.joined(client, route)
        profile = msgspec.to_builtins(read_device(device))
        if profile:
            self._record.put_device(client, profile)
            self._ledger.device(client, profile)

    def heard(self, client: str, message: Message, frames: Frames) -> None:
        """Take what a client says of itself."""
        if isinstance(message, Ready):
            self.links.not_found(client, message.lost_round)
        if not isinstance(message, Ping | Goodbye):
            return
        self.links.told(client, message.vitals, framed_bytes(frames, self._is_encrypted))
        self._remember("client_peak_rss_bytes", message.client_peak_rss_bytes)
        self._remember("trainer_peak_rss_bytes", message.trainer_peak_rss_bytes)

    def _remember(self, name: str, peak_bytes: int) -> None:
        if peak_bytes > 0:
            self.peaks[name] = max(peak_bytes, self.peaks.get(name, 0))
