"""What is under way on the simulated clock."""

from __future__ import annotations

from coordinator.metrics.tally import Cost, Report
from coordinator.simulation.clock import Arrival, SimulatedClock
from wire.encoding import Packed


def arrival(client: str, at: float, trains_until: float = 0.0) -> Arrival:
    return Arrival(at, client, 1, 0, trains_until, Packed([], {}, b""), Cost(0, 0, 0, None), Report(), 0.0)


def test_updates_come_in_their_order_and_of_one_moment_by_client() -> None:
    clock = SimulatedClock()
    for client, at in (("c", 2.0), ("b", 1.0), ("d", 1.0), ("a", 2.0)):
        clock.expect(arrival(client, at))
    assert clock.next_arrival() == 1.0
    assert [clock.take().client for _ in range(4)] == ["b", "d", "a", "c"]
    assert (clock.now, clock.next_arrival()) == (2.0, None)


def test_the_clock_never_goes_back() -> None:
    clock = SimulatedClock(5.0)
    clock.go_on_to(3.0)
    clock.expect(arrival("a", 4.0))
    clock.take()
    assert clock.now == 5.0


def test_who_trains_is_abandoned_and_what_is_sent_is_not() -> None:
    clock = SimulatedClock(2.0)
    clock.expect(arrival("a", 4.0, trains_until=3.0))
    clock.expect(arrival("b", 4.0, trains_until=2.0))
    assert [coming.client for coming in clock.under_way()] == ["a", "b"]
    clock.abandon("a")
    clock.abandon("b")
    assert clock.take().client == "b"
    assert clock.next_arrival() is None
