"""Bytes on the wire in the accounts, where the kernel counts them."""

from __future__ import annotations

import json
from typing import Any

from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import LinkCounts, Links, StoredLinks
from tests.coordinator.accounting import READY, SPEC, TASK, TWO, UPDATE, report
from wire.sockets.tcp import Counters


class Kernel:
    """Links of ann and bob whose counts grow by hand."""

    def __init__(self, stored: StoredLinks | None = None) -> None:
        self.counters: dict[bytes, Counters] = {}
        self.links = Links(stored or StoredLinks(), self.counters.get)
        self.ledger = Ledger(SPEC, TWO, self.links)
        for client, announced in READY.items():
            self.grow(client, 500, 400)
            self.links.joined(client, client.encode())
            self.ledger.announce(client, announced)

    def grow(self, client: str, up: int, down: int) -> None:
        before = self.counters.get(client.encode(), Counters(0, 0, 0, 0.01, 0, 0, 0.0))
        sent, received = before.sent_bytes + down, before.received_bytes + up
        self.counters[client.encode()] = before._replace(sent_bytes=sent, received_bytes=received)

    def exchange(self, resumed: bool = False) -> list[Any]:
        """Play the first exchange: 170 bytes up and 230 down for ann, of bob only 7 of a heartbeat."""
        self.ledger.round_opened(1, 0, resumed)
        self.ledger.exchange_opened(1, 0, ["ann", "bob"], 0, resumed)
        at = None if resumed else 1
        self.ledger.task_sent("ann", TASK, at)
        self.ledger.update_accepted("ann", UPDATE, report(0.5), at)
        self.grow("ann", 170, 230)
        self.grow("bob", 7, 0)
        return list(map(json.loads, self.ledger.exchange_closed({}, 2)))


def test_an_exchange_has_what_the_kernel_counted_while_it_was_open() -> None:
    kernel = Kernel()
    ann, bob, _ = kernel.exchange()
    assert (ann["up"]["wire_bytes"], ann["down"]["wire_bytes"]) == (170, 230)
    assert (bob["up"]["wire_bytes"], bob["down"]["wire_bytes"]) == (7, 0)
    assert (ann["up"]["computed_wire_bytes"], ann["down"]["computed_wire_bytes"]) == (54, 64)
    assert (ann["up"]["encoded_bytes"], ann["down"]["encoded_bytes"]) == (50, 60)
    summary = kernel.ledger.summary("serve", {}, {})
    assert (summary["uplink"]["wire_bytes"], summary["downlink"]["wire_bytes"]) == (1177, 1030)
    assert summary["wire"]["uplink"] == {"rounds_bytes": 177, "evaluation_bytes": 0, "other_bytes": 1000}


def test_where_one_client_has_no_count_the_figures_of_all_are_computed_as_their_source_says() -> None:
    kernel = Kernel()
    kernel.ledger.announce("eve", READY["bob"])
    kernel.exchange()
    kernel.ledger.exchange_opened(1, 2, ["ann"], 0)
    kernel.ledger.task_sent("ann", TASK, 1)
    kernel.grow("ann", 1000, 1000)
    kernel.ledger.exchange_closed({}, 2)
    summary = kernel.ledger.summary("serve", {}, {})
    assert summary["wire"]["source"] == "computed"
    assert summary["wire"]["uplink"] == {"rounds_bytes": 54, "evaluation_bytes": 0, "other_bytes": 0}
    assert summary["wire"]["downlink"] == {"rounds_bytes": 64, "evaluation_bytes": 64, "other_bytes": 0}
    assert (summary["uplink"]["wire_bytes"], summary["downlink"]["wire_bytes"]) == (54, 128)
    assert summary["evaluation"]["downlink"]["wire_bytes"] == 64


def test_the_kernel_is_asked_once_for_each_client_at_the_opening_and_once_at_the_close() -> None:
    kernel = Kernel()
    asked: list[bytes] = []

    def counters(route: bytes) -> Counters | None:
        asked.append(route)
        return kernel.counters.get(route)

    kernel.links = Links(StoredLinks(), counters)
    kernel.ledger = Ledger(SPEC, TWO, kernel.links)
    for client in READY:
        kernel.links.joined(client, client.encode())
    asked.clear()
    kernel.exchange()
    assert sorted(asked) == [b"ann", b"ann", b"bob", b"bob"]
    assert kernel.ledger.links_at_closing == kernel.ledger.links()


def test_a_process_that_left_in_order_has_counted_what_the_next_ones_do_not_compute() -> None:
    """The second process is killed; the third has ann's task and update from the first, and bob's from the second."""
    first = Kernel()
    first.ledger.exchange_opened(1, 0, ["ann", "bob"], 0)
    for client in ("ann", "bob"):
        first.ledger.task_sent(client, TASK, 1)
    first.ledger.update_accepted("ann", UPDATE, report(0.5), 2)
    third = Kernel(first.ledger.links_at_leaving())
    third.ledger.exchange_opened(1, 0, ["ann", "bob"], 0, resumed=True)
    for client in ("ann", "bob"):
        third.ledger.task_sent(client, TASK, None)
        third.ledger.update_accepted(client, UPDATE, report(0.5), None)
    computed = {client: link.computed_bytes for client, link in third.ledger.links().links.items()}
    assert computed == {"ann": 0, "bob": 54}


def test_an_exchange_that_was_open_before_a_restart_has_computed_bytes() -> None:
    """So has the total what was sent before; the rest is what was stored and what was counted since."""
    kernel = Kernel(StoredLinks({"ann": LinkCounts(2000, 1000, num_connections=1)}))
    ann, bob, _ = kernel.exchange(resumed=True)
    assert (ann["up"]["wire_bytes"], ann["up"]["computed_wire_bytes"]) == (54, 54)
    assert bob["up"]["wire_bytes"] == 0
    summary = kernel.ledger.summary("serve", {}, {})
    assert summary["wire"]["source"] == "both"
    assert summary["uplink"]["wire_bytes"] == 2000 + 54 + 500 + 170 + 500 + 7
