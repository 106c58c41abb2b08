"""A client's link to its coordinator: tried again, kept alive, and given up when nothing comes."""

from __future__ import annotations

from edge_client.link import JOIN_S, MAX_BROKEN_OFF, MAX_JOIN_S, NO_WELCOME, Link
from edge_client.reconnect import MAX_DELAY_S
from edge_client.session import Session
from edge_client.session_events import (
    CloseLink,
    DropUplink,
    Exit,
    Instruction,
    LinkLost,
    LinkRefused,
    Moved,
    OpenLink,
    Prepare,
    Say,
    Send,
    SendUplink,
    Ticked,
)
from edge_client.waiting import Work
from tests.edge_client.session_driver import HEARTBEAT_S, LARGE, READY, RUN, Client, refusal, welcome
from wire.exit_codes import ExitCode
from wire.messages import Goodbye, Offer, Ping, Pong
from wire.sockets.zeromq import HANDSHAKE_MS


def lines(found: list[Instruction]) -> list[str]:
    return [instruction.text for instruction in found if isinstance(instruction, Say)]


def test_a_session_opens_its_link_with_the_first_tick_and_joins() -> None:
    client = Client()
    assert (client.session.link, client.session.next_wakeup()) == (Link.DOWN, None)
    assert client.feed(Ticked) == [OpenLink()]
    assert (client.session.link, client.session.next_wakeup()) == (Link.JOINING, JOIN_S)
    assert client.hear(welcome()) == [Say("joined run run-7"), DropUplink(), Prepare(welcome())]
    assert (client.session.link, client.session.work) == (Link.UP, Work.PREPARING)


def test_a_client_that_is_there_first_joins_a_coordinator_that_comes_a_minute_later() -> None:
    client = Client()
    client.feed(Ticked)
    attempts, told = 1, []
    while client.at < 60.0:
        told += lines(client.cut("nobody listens"))
        assert client.session.link is Link.DOWN
        before = client.at
        while OpenLink() not in (found := client.tick()):
            told += lines(found)
        assert 0.0 < client.at - before <= MAX_DELAY_S
        attempts += 1
    assert attempts >= 7
    assert told == [
        "nobody listens; trying again, at most every 20 s",
        "still waiting, after 30 s, for the coordinator: nobody listens",
        "still waiting, after 60 s, for the coordinator: nobody listens",
    ]
    assert Prepare(welcome()) in client.hear(welcome())


def test_pauses_differ_between_clients_and_are_short_again_after_a_welcome() -> None:
    assert len({downtime(seed) for seed in range(20)}) == 20
    client = Client()
    client.feed(Ticked)
    for _ in range(10):
        client.cut()
        client.tick()
    client.hear(welcome())
    client.cut()
    wakeup = client.session.next_wakeup()
    assert wakeup is not None
    assert wakeup - client.at <= 0.25


def downtime(seed: int) -> float | None:
    client = Client(seed=seed)
    client.feed(Ticked)
    client.cut()
    return client.session.next_wakeup()


def test_no_attempt_is_made_before_its_time() -> None:
    client = Client()
    client.feed(Ticked)
    client.cut()
    wakeup = client.session.next_wakeup()
    assert wakeup is not None
    assert client.tick(wakeup - 0.001) == []
    assert client.tick(wakeup) == [OpenLink()]


def test_a_welcome_that_does_not_come_is_not_waited_for() -> None:
    client = Client()
    client.feed(Ticked)
    assert client.tick(JOIN_S - 0.001) == []
    text = f"{NO_WELCOME}; trying again, at most every 20 s"
    assert client.tick(JOIN_S) == [CloseLink(), Say(text)]


def test_a_welcome_that_is_many_slow_round_trips_away_is_waited_for() -> None:
    client = Client()
    client.feed(Ticked)
    for number in range(1, 7):  # to the connection, the greetings, the keys and the welcome
        client.session.handle(Moved(1.6 * number))
        client.tick(1.6 * number + 1.5)
        assert client.session.link is Link.JOINING
    assert Prepare(welcome()) in client.hear(welcome())


def test_a_welcome_is_missed_when_nothing_moves_any_more() -> None:
    client = Client()
    client.feed(Ticked)
    client.session.handle(Moved(1.6))
    assert client.session.next_wakeup() == 1.6 + JOIN_S
    assert CloseLink() in client.tick()


def test_a_welcome_is_not_waited_for_for_ever_whatever_moves() -> None:
    client = Client()
    client.feed(Ticked)
    while client.current_link() is Link.JOINING:
        due = client.session.next_wakeup()
        assert due is not None
        client.session.handle(Moved(due))
        client.tick(due)
    assert client.at == MAX_JOIN_S


def test_a_coordinator_in_the_middle_of_a_long_message_is_not_silent() -> None:
    client = Client().prepare()
    client.feed(Ticked)
    joined_at = client.at
    client.at = joined_at + 1.9 * HEARTBEAT_S
    client.session.handle(Moved(client.at))
    client.session.handle(Moved(joined_at))
    client.tick(joined_at + 3.8 * HEARTBEAT_S)
    assert client.session.link is Link.UP
    client.tick(joined_at + 3.9 * HEARTBEAT_S)
    assert client.current_link() is Link.DOWN


def test_a_silent_coordinator_is_noticed_in_two_heartbeats() -> None:
    client = Client()
    client.join()
    assert client.tick() == [Send(Ping())]
    assert client.at == HEARTBEAT_S
    assert client.session.next_wakeup() == 2 * HEARTBEAT_S
    text = "the coordinator is silent; trying again, at most every 20 s"
    assert client.tick() == [CloseLink(), Say(text)]
    assert client.session.link is Link.DOWN


def test_each_heartbeat_has_a_ping_and_whatever_comes_is_a_sign_of_life() -> None:
    client = Client()
    client.join()
    for number in range(1, 10):
        assert client.tick()[-1] == Send(Ping())
        assert client.at == number * HEARTBEAT_S
        client.at += 0.2
        client.hear(Pong())


def test_a_ping_is_answered() -> None:
    client = Client()
    client.join()
    assert client.hear(Ping()) == [Send(Pong())]


def test_a_lost_link_is_told_once_for_each_kind_of_reason() -> None:
    client = Client()
    client.feed(Ticked)
    told = []
    for _ in range(5):
        told += lines(client.cut("nobody listens"))
        client.tick()
        told += lines(client.tick())
        client.tick()
    assert [text.partition(";")[0] for text in told] == ["nobody listens", NO_WELCOME]


def test_after_a_welcome_reasons_are_told_again() -> None:
    client = Client()
    client.join()
    first = client.cut()
    assert lines(client.join()) == ["joined run run-7"]
    assert client.cut() == first == [CloseLink(), Say("the cable is out; trying again, at most every 20 s")]


def test_a_link_that_is_down_cannot_be_lost() -> None:
    client = Client()
    assert client.cut() == []
    client.join()
    client.cut()
    wakeup = client.session.next_wakeup()
    assert client.cut() == []
    assert client.session.next_wakeup() == wakeup


def test_unknown_session_makes_the_client_say_hello_again_and_keeps_the_work() -> None:
    client = Client().hold()
    assert client.hear(refusal("unknown_session")) == [OpenLink()]
    assert (client.session.link, client.session.work) == (Link.JOINING, Work.HOLDING)
    assert client.hear(refusal("unknown_session")) == []
    assert client.session.next_wakeup() == client.at + JOIN_S
    assert client.hear(welcome())[-2:] == [SendUplink(), Send(READY)]


def test_a_client_whose_part_of_the_data_another_has_tries_again_and_keeps_its_work() -> None:
    client = Client().hold()
    client.cut()
    told = "the coordinator cannot let this client in now (data_index): for a reason"
    for expected in ([CloseLink(), Say(f"{told}; trying again, at most every 20 s")], [CloseLink()]):
        assert client.tick() == [OpenLink()]
        assert client.hear(refusal("data_index")) == expected
    assert (client.current_link(), client.current_work()) == (Link.DOWN, Work.HOLDING)
    assert client.tick() == [OpenLink()]
    assert SendUplink() in client.hear(welcome())


def test_messages_that_no_session_expects_change_nothing() -> None:
    client = Client().hold()
    assert client.hear(Pong()) == client.hear(Goodbye("")) == client.hear(Offer(RUN, 1, 0, LARGE)) == []
    assert client.current_work() is Work.HOLDING


# A coordinator that will not have it


def test_a_refused_link_ends_the_client() -> None:
    client = Client()
    client.feed(Ticked)
    assert client.feed(LinkRefused, "not enrolled") == [Exit(ExitCode.REFUSED, "not enrolled")]


def broken_off(client: Client) -> list[Instruction]:
    """Let a coordinator break off the handshake, and the client try again."""
    found = client.session.handle(LinkLost("broken off", client.at, broken_off=True))
    if not any(isinstance(instruction, Exit) for instruction in found):
        client.tick()
    return found


def test_handshakes_that_are_broken_off_again_and_again_mean_another_key() -> None:
    client = Client()
    client.feed(Ticked)
    *before, last = [broken_off(client) for _ in range(MAX_BROKEN_OFF)]
    assert not any(isinstance(instruction, Exit) for found in before for instruction in found)
    (end,) = last
    assert isinstance(end, Exit)
    assert end.code is ExitCode.REFUSED
    assert end.reason.startswith("broken off 3 times: expected a coordinator with the secret key to [coordinator]")


def test_one_that_was_only_restarted_does_not_end_the_client() -> None:
    client = Client()
    client.feed(Ticked)
    for _ in range(3):
        for _ in range(MAX_BROKEN_OFF - 1):
            broken_off(client)
        client.cut("nobody listens")
        client.tick()
    for _ in range(MAX_BROKEN_OFF - 1):
        broken_off(client)
    assert Prepare(welcome()) in client.hear(welcome())
    client.cut()
    client.tick()
    assert not any(isinstance(instruction, Exit) for instruction in broken_off(client))


def test_they_do_not_once_the_coordinator_has_let_the_client_in() -> None:
    client = Client()
    client.feed(Ticked)
    client.hear(welcome())
    client.cut()
    client.tick()
    told = [instruction for _ in range(3 * MAX_BROKEN_OFF) for instruction in broken_off(client)]
    assert not any(isinstance(instruction, Exit) for instruction in told)
    says = [instruction.text for instruction in told if isinstance(instruction, Say)]
    assert len(says) == 2
    assert says[1].startswith("broken off again and again: the network cuts it, or the coordinator")


def test_nor_where_it_has_in_an_earlier_life() -> None:
    session = Session(1, once=False, was_let_in=True)
    session.handle(Ticked(0.0))
    for number in range(3 * MAX_BROKEN_OFF):
        found = session.handle(LinkLost("broken off", 100.0 * number, broken_off=True))
        assert not any(isinstance(instruction, Exit) for instruction in found)
        session.handle(Ticked(100.0 * number + 50))


def test_a_client_gives_up_a_slow_handshake_before_the_coordinator_breaks_it_off() -> None:
    assert JOIN_S < MAX_JOIN_S < HANDSHAKE_MS / 1000
