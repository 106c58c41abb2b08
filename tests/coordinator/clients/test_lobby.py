"""The lobby, with lists in place of sockets: who is welcomed, who is refused with what words, who is told."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.clients.lobby import MAX_WAITS_CHARACTERS, WAITS_EVERY_S
from coordinator.clients.membership import PROBE_S
from tests.coordinator.hall import ETF, HEARTBEAT_S, MASKS, OURS, RUN, Hall, quiet, ready, refusal
from wire.messages import Constant as ConstantMessage
from wire.messages import Goodbye, Hello, Message, Ping, Pong, Progress, Welcome


def test_a_client_is_welcomed_and_takes_part_once_it_is_ready() -> None:
    hall = Hall()
    assert hall.hello("a", b"1") == [Welcome(RUN, "run-7", HEARTBEAT_S, 1 << 20, {"seed": 0}, [])]
    assert (hall.lobby.clients, hall.told, hall.notes) == (["a"], [], ["a joined"])
    assert hall.take(b"1", ready()) == "a"
    assert hall.told == ["a is ready"]
    assert hall.lobby.announced == {"a": ready()}
    assert hall.take(b"1", Progress(RUN, 1, 0, 1, 2)) == "a"


# Connections that speak for one client alone


def test_a_key_lets_its_own_client_in_and_no_other() -> None:
    hall = Hall()
    hello = Hello(OURS, "b", 1)
    assert hall.take(b"1", hello, owner="a") is None
    text = "the key is that of a, the client says that it is b"
    assert refusal(hall.answers(b"1")) == ("key", text, True)
    assert hall.turned_away == [("key", text)]
    assert hall.lobby.clients == []
    hall.take(b"1", hello, owner="b")
    assert hall.lobby.clients == ["b"]


def test_a_route_that_comes_back_with_another_key_does_not_speak_for_who_had_it() -> None:
    hall = Hall()
    hall.take(b"1", Hello(OURS, "a", 1), owner="a")
    hall.answers(b"1")
    assert hall.take(b"1", ready(), owner="b") is None
    assert refusal(hall.answers(b"1"))[0] == "unknown_session"
    assert hall.take(b"1", ready(), owner="a") == "a"


def test_a_barred_connection_is_gone() -> None:
    hall = Hall()
    hall.join("a")
    hall.lobby.bar(b"a", "the key of a was revoked", hall.at)
    assert (hall.lobby.clients, hall.told, hall.notes[-1]) == (
        [],
        ["a is ready", "a is gone"],
        "a is gone: the key of a was revoked",
    )


def test_a_client_that_is_left_out_is_told_so_now_and_whenever_it_comes_again() -> None:
    hall = Hall()
    hall.join("a")
    hall.left_out["a"] = "too many refusals"
    hall.lobby.leave_out("a", hall.at)
    assert refusal(hall.answers(b"a")) == ("left_out", "too many refusals", True)
    assert (hall.lobby.clients, hall.told) == ([], ["a is ready", "a is gone"])
    assert refusal(hall.hello("a", b"2", incarnation=2)) == ("left_out", "too many refusals", True)
    assert hall.turned_away == [("left_out", "too many refusals")] * 2
    assert isinstance(hall.hello("b", b"3")[0], Welcome)


def test_after_a_restart_it_is_known_who_was_left_out_and_what_was_announced() -> None:
    before = ready(num_skipped=3)
    hall = Hall(announced={"a": before}, left_out={"b": "too many refusals"})
    assert hall.lobby.announced == {"a": before}
    hall.join("a", num_skipped=3)
    assert hall.notes == ["a joined"]  # its skipped samples are no news
    assert refusal(hall.hello("b", b"b")) == ("left_out", "too many refusals", True)


# Two processes with one id


def test_a_second_live_process_is_refused_by_name_when_the_first_answers() -> None:
    hall = Hall()
    hall.join("a")
    hall.at = 1.0
    assert hall.hello("a", b"2", incarnation=2) == []
    assert hall.answers(b"a") == [Ping()]
    assert hall.take(b"a", Pong()) == "a"
    text = "client id 'a' is held by a client that is connected and alive"
    assert refusal(hall.answers(b"2")) == ("duplicate_client", text, True)
    hall.lobby.tick(1.0 + PROBE_S)
    assert (hall.lobby.clients, hall.told) == (["a"], ["a is ready"])


def test_a_client_that_connects_anew_before_a_slow_welcome_is_no_rival_of_itself() -> None:
    hall = Hall(is_open=False)
    for number, route in enumerate((b"1", b"2", b"3")):
        hall.at = 5.0 * number
        assert hall.hello("a", route) == []
    assert hall.take(b"1", Ping()) is None  # which came late, by a connection that is given up
    hall.lobby.open(())
    hall.lobby.tick(hall.at + PROBE_S)
    assert [type(answer) for answer in hall.answers(b"3")] == [Welcome]
    assert (hall.lobby.clients, hall.turned_away, hall.notes) == (["a"], [], ["a joined"])


def test_a_restarted_process_is_welcomed_when_the_older_one_is_silent() -> None:
    hall = Hall()
    hall.join("a")
    hall.hello("a", b"2", incarnation=2)
    assert hall.lobby.next_wakeup() == PROBE_S
    hall.lobby.tick(PROBE_S)
    assert isinstance(hall.answers(b"2")[0], Welcome)
    assert hall.told == ["a is ready", "a is gone"]


def test_a_restarted_process_is_welcomed_at_once_when_the_older_connection_is_cut() -> None:
    hall = Hall()
    hall.join("a")
    hall.cut.add(b"a")
    assert isinstance(hall.hello("a", b"2", incarnation=2)[0], Welcome)
    assert hall.told == ["a is ready", "a is gone"]
    assert hall.undelivered == ["a"]


def test_a_client_that_cannot_be_reached_is_gone_and_that_is_told() -> None:
    hall = Hall()
    hall.join("a")
    hall.cut.add(b"a")
    assert not hall.lobby.send("a", [b""], 1.0)
    assert not hall.lobby.send("a", [b""], 1.0)
    assert (hall.lobby.clients, hall.told) == ([], ["a is ready", "a is gone"])
    assert hall.undelivered == ["a", "a"]


def test_the_goodbye_of_the_older_process_makes_room_for_the_newer() -> None:
    hall = Hall()
    hall.join("a")
    hall.hello("a", b"2", incarnation=2)
    assert hall.take(b"a", Goodbye("restarting")) == "a"
    assert isinstance(hall.answers(b"2")[0], Welcome)


# Sessions


@pytest.mark.parametrize("message", [Ping(), Pong(), ready(), Progress(RUN, 1, 0, 1, 2)])
def test_who_has_not_said_hello_is_told_to(message: Message) -> None:
    hall = Hall()
    assert hall.take(b"1", message) is None
    assert refusal(hall.answers(b"1")) == ("unknown_session", "say hello first", False)


def test_a_goodbye_by_an_unknown_route_needs_no_answer() -> None:
    hall = Hall()
    assert hall.take(b"1", Goodbye("")) is None
    assert hall.answers(b"1") == []


def test_who_is_ready_for_another_run_is_told_which_this_is() -> None:
    hall = Hall()
    assert refusal(hall.join("a", run=8)) == ("unknown_session", "this is run run-7", False)
    assert hall.told == []


def test_a_ping_is_answered_and_counts_as_a_sign_of_life() -> None:
    hall = Hall()
    hall.hello("a", b"1")
    hall.at = 9.0
    hall.take(b"1", Ping())
    assert hall.answers(b"1") == [Pong()]
    assert hall.lobby.next_wakeup() == 9.0 + 2 * HEARTBEAT_S


def test_a_client_in_the_middle_of_a_long_message_is_not_silent() -> None:
    hall = Hall()
    hall.hello("a", b"1")
    hall.at, hall.counters[b"1"] = 2 * HEARTBEAT_S, quiet(0.5)
    hall.lobby.tick(hall.at)
    assert hall.lobby.clients == ["a"]
    assert hall.lobby.next_wakeup() == 4 * HEARTBEAT_S - 0.5
    hall.at, hall.counters[b"1"] = 4 * HEARTBEAT_S - 0.5, quiet(2 * HEARTBEAT_S)
    hall.lobby.tick(hall.at)
    assert hall.lobby.clients == []


def test_silent_and_leaving_clients_are_gone_and_people_hear_why() -> None:
    hall = Hall()
    hall.join("a")
    hall.join("b")
    hall.take(b"a", Goodbye("stopped by SIGTERM"))
    hall.lobby.tick(2 * HEARTBEAT_S)
    assert hall.told[2:] == ["a is gone", "b is gone"]
    assert hall.notes[2:] == ["a is gone: it left: stopped by SIGTERM", "b is gone: silent for 10.0 s"]
    assert hall.lobby.clients == []


def test_the_run_hears_of_every_connection_of_a_client_and_of_its_device() -> None:
    hall = Hall(is_open=False)
    hall.hello("a", b"1", device={"machine": "aarch64"})
    hall.hello("a", b"2")
    assert hall.joined == [("a", b"1", {"machine": "aarch64"}), ("a", b"2", {})]


# Sending


def test_who_cannot_be_reached_is_gone_and_it_is_told() -> None:
    hall = Hall()
    hall.join("a")
    assert hall.lobby.send("a", [b"\x92\x0d\x90"], 0.0)
    hall.cut.add(b"a")
    assert not hall.lobby.send("a", [b"\x92\x0d\x90"], 0.0)
    assert not hall.lobby.send("nobody", [b"\x92\x0d\x90"], 0.0)
    assert hall.undelivered == ["a", "nobody"]
    assert hall.told == ["a is ready", "a is gone"]


def test_greetings_and_refusals_that_cannot_be_delivered_are_told_of_too() -> None:
    hall = Hall(constants=(MASKS,))
    hall.cut.update((b"1", b"2"))
    hall.hello("a", b"1")
    hall.take(b"2", Ping())
    assert hall.undelivered == ["a", "a", ""]
    assert hall.told == []


# Constants


def test_constants_are_sent_only_to_those_who_do_not_hold_them() -> None:
    hall = Hall(constants=(MASKS, ETF))
    welcome, *sent = hall.hello("a", b"1", constants=["digest-masks", "of another run"])
    assert isinstance(welcome, Welcome)
    assert welcome.constants == ["digest-masks", "digest-etf"]
    assert sent == [ConstantMessage(RUN, "etf", "digest-etf")]
    assert len(hall.hello("b", b"2")) == 3
    assert hall.told == ["a was sent etf", "b was sent masks", "b was sent etf"]


def test_constants_with_the_same_arrays_are_named_each_and_sent_once() -> None:
    twin = msgspec.structs.replace(MASKS, name="twin")
    hall = Hall(constants=(MASKS, twin, ETF))
    welcome, *sent = hall.hello("a", b"1")
    assert isinstance(welcome, Welcome)
    assert (welcome.constants, welcome.names) == (
        ["digest-masks", "digest-masks", "digest-etf"],
        ["masks", "twin", "etf"],
    )
    assert sent == [ConstantMessage(RUN, name, f"digest-{name}") for name in ("masks", "etf")]
    assert [told for told in hall.told if "was sent" in told] == ["a was sent masks", "a was sent etf"]


def test_nobody_is_welcomed_before_the_constants_are_made() -> None:
    hall = Hall(is_open=False)
    assert hall.hello("b", b"2") == hall.hello("a", b"1") == []
    assert hall.lobby.clients == ["a", "b"]
    hall.lobby.open([MASKS])
    for route in (b"1", b"2"):
        welcome, constant = hall.answers(route)
        assert isinstance(welcome, Welcome)
        assert constant == ConstantMessage(RUN, "masks", "digest-masks")


def test_those_who_came_again_or_left_before_the_opening_are_welcomed_once_or_not_at_all() -> None:
    hall = Hall(is_open=False)
    hall.hello("a", b"1")
    hall.hello("a", b"2")
    hall.hello("b", b"3")
    hall.take(b"3", Goodbye(""))
    hall.lobby.open([MASKS])
    assert [len(hall.answers(route)) for route in (b"1", b"2", b"3")] == [0, 2, 0]
    assert hall.told == ["b is gone", "a was sent masks"]


# Clients that wait, and samples that change


def test_what_a_client_waits_for_is_told_when_it_changes_and_not_too_often() -> None:
    hall = Hall()
    hall.join("a")
    hall.take(b"a", Ping(0, 0, "night"))
    hall.take(b"a", Ping(0, 0, "night"))
    hall.take(b"a", Ping(0, 0, ""))
    assert hall.notes[-1] == "a waits for night"
    assert hall.waiting == [{"a": "night"}]
    hall.at = WAITS_EVERY_S
    hall.take(b"a", Ping(0, 0, ""))
    assert hall.notes[-1] == "a waits no longer"
    assert hall.waiting[-1] == {}


def test_who_is_gone_waits_for_nothing_and_a_long_reason_is_cut() -> None:
    hall = Hall()
    hall.join("a")
    hall.take(b"a", Ping(0, 0, "x" * 1000))
    assert len(hall.waiting[-1]["a"]) == MAX_WAITS_CHARACTERS
    hall.take(b"a", Goodbye(""))
    assert hall.waiting[-1] == {}


def test_a_client_with_other_samples_is_not_taken_for_one_that_has_come_back() -> None:
    hall = Hall()
    hall.join("a")
    hall.take(b"a", ready(num_train=7, class_counts=[4, 2, 1, 0]))
    assert hall.told == ["a is ready", "a has other samples"]
    assert hall.lobby.announced["a"].num_train == 7
    hall.hello("a", b"2")
    hall.take(b"2", ready())
    assert hall.told[-1] == "a is ready"


def test_samples_that_a_client_cannot_use_are_told_of_once() -> None:
    hall = Hall()
    hall.join("a", num_skipped=3)
    hall.take(b"a", ready(num_skipped=3))
    hall.take(b"a", ready(num_skipped=0))
    told = [note for note in hall.notes if "cannot use" in note]
    assert told == [f"a has {count} samples that it cannot use; its own log says why" for count in (3, 0)]


def test_a_state_that_a_client_does_not_find_is_told_of_once() -> None:
    hall = Hall()
    hall.join("a")
    hall.take(b"a", ready(lost_round=4))
    hall.take(b"a", ready(lost_round=4))
    told = [note for note in hall.notes if "another state" in note]
    assert told == [
        "a goes on from another state than that of round 4: "
        "its own is gone, or this store is an older copy; its own log says which"
    ]


def test_why_who_was_here_is_gone_is_known_until_it_comes_back() -> None:
    hall = Hall()
    hall.join("a")
    hall.lobby.bar(b"a", "the key of a was revoked", hall.at)
    assert hall.lobby.away == {"a": "the key of a was revoked"}
    hall.hello("a", b"a2", incarnation=2)
    assert hall.lobby.away == {}
