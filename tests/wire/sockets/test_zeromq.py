"""The two ends of a connection on a running event loop; everything on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests.wire.sockets.bench import LIMIT, Bench, Frames, until
from wire.framing import MAX_ADDED_BYTES
from wire.limits import MAX_PARTS
from wire.sockets.endpoint import Parts
from wire.sockets.tcp import Counters
from wire.sockets.zeromq import AddressInUseError, Dealer


@pytest.fixture
def bench() -> Bench:
    """Give a test a place to set up."""
    return Bench()


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return "{}:{}".format(*listener.getsockname())


def test_frames_go_both_ways_unchanged(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        hub.echoes = True
        dealer = hub.dealer()
        messages: list[Frames] = [[b""], [b"header"], [b"header", b""], [b"header", bytes(range(256)) * 1000]]
        for frames in messages:
            dealer.send([memoryview(frame) for frame in frames])
        await until(lambda: len(hub.answers) == len(messages))
        assert hub.answers == [frames for _, frames in hub.came] == messages

    bench.run(main)


def test_a_burst_arrives_whole_and_in_order(bench: Bench) -> None:
    """The descriptor wakes the loop once for any number of messages."""

    async def main() -> None:
        hub = bench.hub()
        route = await hub.route_of(hub.dealer())
        sent = [[b"%d" % number] for number in range(900)]
        assert all(hub.router.send(route, frames) for frames in sent)
        await until(lambda: len(hub.answers) == len(sent))
        assert hub.answers == sent

    bench.run(main)


def test_a_send_does_not_eat_the_wake_up_of_a_receive(bench: Bench) -> None:
    """Both sides send from within their callbacks, a thousand times to and fro."""

    async def main() -> None:
        hub = bench.hub()
        hub.echoes = True

        def answer(parts: Parts) -> None:
            hub.answers.append(list(map(bytes, parts)))
            if len(hub.answers) < 1000:
                dealer.send([b"%d" % len(hub.answers)])

        dealer = bench.keep(Dealer(bench.context, hub.router.address, LIMIT, answer, lambda *_: None))
        dealer.send([b"0"])
        await until(lambda: len(hub.answers) == 1000)
        assert hub.answers == [[b"%d" % number] for number in range(1000)]

    bench.run(main)


def test_each_connection_has_a_route_of_its_own(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        routes = [await hub.route_of(hub.dealer()) for _ in range(3)]
        assert len(set(routes)) == 3
        assert {len(route) for route in routes} == {5}
        assert hub.router.send(routes[1], [b"to you alone"])
        await until(lambda: hub.answers)
        assert hub.answers == [[b"to you alone"]]

    bench.run(main)


def test_what_cannot_be_delivered_is_said(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        assert not hub.router.send(b"\0nope", [b"x"])
        dealer = hub.dealer()
        route = await hub.route_of(dealer)
        assert hub.router.send(route, [b"x"])
        dealer.close()
        await until(lambda: not hub.router.send(route, [b"x"]))
        assert await hub.route_of(hub.dealer()) != route

    bench.run(main)


def test_a_connection_whose_queue_is_full_is_lost_but_not_by_what_may_lapse(bench: Bench) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            hub = bench.hub()
            dealer = hub.dealer("{}:{}".format(*mute.getsockname()))
            for _ in range(1000):
                dealer.send([b"x"], may_lapse=True)
            await asyncio.sleep(0.01)
            assert hub.lost == []
            dealer.send([b"x"])
            assert hub.lost == [], "not while others still send"
            await until(lambda: hub.lost)
            assert hub.lost == ["the queue of what is yet to be sent is full"]
            dealer.close()

    bench.run(main)


def test_a_connection_that_has_ended_is_not_told_to_have_a_full_queue(bench: Bench) -> None:
    async def main() -> None:
        gone = bench.hub()
        dealer = gone.dealer()
        await gone.route_of(dealer)
        gone.router.close()
        time.sleep(0.1)  # it ends, of which nobody here hears yet
        for _ in range(5):
            dealer.send([b"x"])
        await until(lambda: gone.lost)
        assert gone.lost == ["the connection to the coordinator is gone"]

    bench.run(main)


def test_what_may_lapse_does_while_something_before_it_has_yet_to_go_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        hub = bench.hub()
        dealer = hub.dealer()
        await hub.route_of(dealer)
        monkeypatch.setattr(dealer, "counters", lambda: Counters(0, 0, 0, 0.01, 0, 1000, 0.0))
        dealer.send([b"too late"], may_lapse=True)
        dealer.send([b"answer"])
        monkeypatch.setattr(dealer, "counters", lambda: Counters(0, 0, 0, 0.01, 0, 0, 0.0))
        dealer.send([b"in time"], may_lapse=True)
        await until(lambda: len(hub.came) == 3)
        assert [frames for _, frames in hub.came[1:]] == [[b"answer"], [b"in time"]]

    bench.run(main)


def test_a_refused_connection_is_reported(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        hub.dealer(closed_address())
        await until(lambda: hub.lost)
        assert hub.lost == ["nobody takes connections there"]

    bench.run(main)


def test_a_lost_connection_is_reported_to_those_who_had_it(bench: Bench) -> None:
    async def main() -> None:
        gone, stays = bench.hub(), bench.hub()
        dealers = [gone.dealer(), stays.dealer()]
        for hub, dealer in zip((gone, stays), dealers, strict=True):
            await hub.route_of(dealer)
        gone.router.close()
        await until(lambda: gone.lost)
        assert stays.lost == []
        assert not dealers[0].closed

    bench.run(main)


def test_a_peer_that_sends_more_than_the_limit_loses_its_connection_alone(bench: Bench) -> None:
    async def main() -> None:
        hub, other = bench.hub(), bench.hub()
        big = other.dealer(hub.router.address)
        small = hub.dealer()
        await hub.route_of(small)
        big.send([bytes(LIMIT + MAX_ADDED_BYTES + 1)])
        await until(lambda: other.lost)
        await hub.route_of(small)
        assert [frames for _, frames in hub.came] == [[b"hello"], [b"hello"]]
        assert hub.lost == []

    bench.run(main)


def test_a_peer_that_sends_more_parts_than_a_message_has_loses_its_connection_alone(bench: Bench) -> None:
    async def main() -> None:
        hub, other = bench.hub(), bench.hub()
        many = other.dealer(hub.router.address)
        route = await hub.route_of(hub.dealer())
        many.send([b""] * (MAX_PARTS + 100))
        await until(lambda: other.lost)
        assert len(hub.came[-1][1]) == MAX_PARTS + 1
        assert hub.router.has(route)
        assert hub.lost == []

    bench.run(main)


def test_what_was_sent_last_is_delivered_after_a_close(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        dealer = hub.dealer()
        dealer.send([b"goodbye"])
        dealer.close()
        dealer.close()
        await until(lambda: hub.came)
        assert hub.came[0][1] == [b"goodbye"]

    bench.run(main)


def test_a_callback_that_fails_does_not_hold_up_the_messages_behind(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        noted: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: noted.append(str(told["exception"])))
        dealer = hub.dealer()
        await hub.route_of(dealer)
        hub.chokes_on = b"bad"
        for content in (b"good", b"bad", b"better", b"bad", b"best"):
            dealer.send([content])
        await until(lambda: len(hub.came) == 4)
        assert [frames for _, frames in hub.came[1:]] == [[b"good"], [b"better"], [b"best"]]
        assert noted == ["cannot swallow this"] * 2

    bench.run(main)


def test_an_address_that_cannot_be_bound_is_named(bench: Bench) -> None:
    async def main() -> None:
        address = bench.hub().router.address
        with pytest.raises(AddressInUseError, match=f"cannot listen on {address}: Address already in use"):
            bench.hub(address)
        with pytest.raises(AddressInUseError, match=r"cannot listen on 203\.0\.113\.1:0: "):
            bench.hub("203.0.113.1:0")

    bench.run(main)


def test_any_free_port_is_named(bench: Bench) -> None:
    async def main() -> None:
        host, _, port = bench.hub().router.address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0

    bench.run(main)


def test_ipv6(bench: Bench) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")

    async def main() -> None:
        hub = bench.hub("[::1]:0")
        assert hub.router.address.startswith("[::1]:")
        await hub.route_of(hub.dealer())

    bench.run(main)


def test_both_ends_have_the_kernels_count_and_that_of_a_connection_which_has_ended(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        dealer = hub.dealer()
        route = await hub.route_of(dealer)
        assert hub.router.send(route, [bytes(5000)])
        await until(lambda: len(hub.answers) == 1)
        here, there = hub.router.counters(route), dealer.counters()
        assert here is not None
        assert there is not None
        assert here.sent_bytes == there.received_bytes > 5000
        assert here.received_bytes == there.sent_bytes > 5
        dealer.close()
        await until(lambda: bool(hub.ended))
        last = hub.ended[route]
        assert last is not None
        assert last.sent_bytes == here.sent_bytes
        assert hub.router.counters(route) is None

    bench.run(main)


def test_a_connection_that_has_the_descriptor_of_an_older_one_is_not_taken_for_it(bench: Bench) -> None:
    async def main() -> None:
        hub = bench.hub()
        for number in range(1, 6):
            dealer = hub.dealer()
            route = await hub.route_of(dealer)
            counters = hub.router.counters(route)
            assert counters is not None
            assert counters.sent_bytes < 200  # its own alone
            assert hub.router.send(route, [bytes(1000)])
            await until(lambda so_far=number: len(hub.answers) == so_far)  # type: ignore[misc]
            dealer.close()
            await until(lambda so_far=number: len(hub.ended) == so_far)  # type: ignore[misc]
        assert all(last is not None and 1000 < last.sent_bytes < 1300 for last in hub.ended.values())

    bench.run(main)
