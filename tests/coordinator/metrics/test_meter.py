"""What the daemon measures of clients, from their connections and words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import Links, StoredLinks
from coordinator.metrics.meter import Meter
from coordinator.metrics.wire_bytes import told_of
from coordinator.store.record import RunRecord
from tests.coordinator.accounting import READY, SPEC, TWO, ledger
from wire.encoding import encode
from wire.framing import framed_bytes
from wire.messages import Goodbye, Message, Ping, Pong, Ready, Vitals
from wire.sockets.tcp import Counters


class Station:
    """A meter with one connection of ann's, and what it has stored."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        record = SimpleNamespace(put_device=self.stored.__setitem__)
        self.links = Links(StoredLinks(), lambda route: Counters(100, 1000, 0, 0.01, 100, 0, 0.0))
        self.ledger: Ledger = ledger()
        self.meter = Meter(cast(RunRecord, record), self.ledger, self.links, is_encrypted=True)


def test_a_device_is_stored_and_told_of_in_the_summary() -> None:
    station = Station()
    station.meter.joined("ann", b"1", {"machine": "aarch64", "cores": 4, "colour": "green"})
    station.meter.joined("bob", b"2", {})
    assert station.stored == {"ann": {"machine": "aarch64", "cores": 4}}
    clients = station.ledger.summary("serve", {}, {})["clients"]
    assert (clients["ann"]["device"], clients["bob"]["device"]) == (station.stored["ann"], {})


def test_states_that_a_client_does_not_find_are_counted_and_go_on_with_its_link() -> None:
    station = Station()
    station.meter.joined("ann", b"1", {})
    for lost in (0, 4, 4, 7, 0, 7):
        ready = Ready(1, 30, 10, [30], 2, 100, 0, lost_round=lost)
        station.meter.heard("ann", ready, encode(ready))
    stored = msgspec.json.decode(msgspec.json.encode(StoredLinks(station.links.all())), type=StoredLinks)
    again = Links(stored, lambda route: None)
    again.not_found("ann", 7)  # it has said so before
    again.not_found("ann", 8)
    told = Ledger(SPEC, TWO, again)
    told.announce("ann", READY["ann"])
    told.announce("bob", READY["bob"])
    clients = told.summary("serve", {}, {})["clients"]
    assert [clients[client]["num_states_not_found"] for client in ("ann", "bob")] == [4, 0]
    assert "num_states_not_found" not in told_of(stored.links["ann"])


def test_the_message_that_carries_a_count_is_added_to_it() -> None:
    station = Station()
    station.meter.joined("ann", b"1", {})
    word = Goodbye("over", 20, 300, Vitals(sent_bytes=900, received_bytes=100))
    frames = encode(word)
    station.meter.heard("ann", word, frames)
    assert station.links.all()["ann"].own_up_bytes == 900 + framed_bytes(frames, True)


def test_peaks_are_the_largest_that_any_client_has_told() -> None:
    station = Station()
    words: list[Message] = [
        Ping(10, 0),
        Ping(5, 300),
        Goodbye("bye", 20, 100),
        Pong(),
    ]
    for word in words:
        station.meter.heard("ann", word, encode(word))
    assert station.meter.peaks == {"client_peak_rss_bytes": 20, "trainer_peak_rss_bytes": 300}
