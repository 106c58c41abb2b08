"""The lobby, with lists in place of sockets: who is welcomed, who is refused with what words, who is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from coordinator.lobby import Events, Frames, Lobby
from coordinator.membership import PROBE_S
from coordinator.server_half import Constant
from models import methods
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from wire.encoding import decode, pack
from wire.messages import Constant as ConstantMessage
from wire.messages import Goodbye, Hello, Message, Ping, Pong, Progress, Ready, Refusal, Welcome
from wire.payload import Payload
from wire.version import PROTOCOL_VERSION

RUN = 7
HEARTBEAT_S = 5.0
SPEC = RunSpec(
    run_id="run-7",
    seed=0,
    num_rounds=3,
    method=methods.default().name,
    method_config={},
    classes=list("0123"),
    data=DataConfig(),
    model=ModelConfig(feature_dim=6),
    training=TrainingConfig(),
    evaluation=EvaluationConfig(),
    wire=WireConfig(),
)
OURS = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
MASKS = Constant("masks", "digest-masks", pack(Payload.of_state({"kept": np.arange(3, dtype=np.int64)})))
ETF = Constant("etf", "digest-etf", pack(Payload.of_state({"frame": np.ones(2, np.float32)})))


def ready(**changes: Any) -> Ready:
    fields: dict[str, Any] = {
        "run": RUN,
        "num_train": 6,
        "num_test": 2,
        "class_counts": [3, 2, 1, 0],
        "feature_dim": 6,
        "num_parameters": 100,
        "num_buffers": 10,
    }
    return Ready(**{**fields, **changes})


class Hall:
    """A lobby, all that it sent by route, and all that it told the run."""

    def __init__(self, shares_model: bool = False, is_open: bool = True, constants: tuple[Constant, ...] = ()) -> None:
        method = dataclasses.replace(methods.default(), shares_model=shares_model)
        welcome = Welcome(RUN, "run-7", HEARTBEAT_S, 1 << 20, {"seed": 0})
        events = Events(
            lambda client, ready: self.told.append(f"{client} is ready"),
            lambda client: self.told.append(f"{client} is gone"),
            lambda client, constant, frames: self.told.append(f"{client} was sent {constant.name}"),
            lambda text: self.notes.append(text),
            lambda code, reason: self.turned_away.append((code, reason)),
        )
        self.told: list[str] = []
        self.notes: list[str] = []
        self.turned_away: list[tuple[str, str]] = []
        self.sent: list[tuple[bytes, Message]] = []
        self.cut: set[bytes] = set()
        self.quiet_s: dict[bytes, float] = {}
        self.at = 0.0
        self.lobby = Lobby(SPEC, method, welcome, self._send, self.quiet_s.get, events)
        if is_open:
            self.lobby.open(constants)

    def _send(self, route: bytes, frames: Frames) -> bool:
        if route in self.cut:
            return False
        self.sent.append((route, decode(frames)[0]))
        return True

    def take(self, route: bytes, message: Message, owner: str | None = None) -> str | None:
        return self.lobby.take(route, owner, message, self.at)

    def hello(self, client: str, route: bytes, incarnation: int = 1, **changes: Any) -> list[Message]:
        """Let a client say hello and return what came back by its route."""
        self.take(route, Hello(**{"version": OURS, "client": client, "incarnation": incarnation, **changes}))
        return self.answers(route)

    def join(self, client: str, **changes: Any) -> list[Message]:
        """Let a client say hello and get ready, by the route of its name; return what came of the latter."""
        self.hello(client, client.encode())
        self.take(client.encode(), ready(**changes))
        return self.answers(client.encode())

    def answers(self, route: bytes) -> list[Message]:
        """Return what was sent to this route since the last time."""
        found = [message for to, message in self.sent if to == route]
        self.sent = [(to, message) for to, message in self.sent if to != route]
        return found


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
    hall.lobby.leave_out("a", "too many refusals", hall.at)
    assert refusal(hall.answers(b"a")) == ("left_out", "too many refusals", True)
    assert (hall.lobby.clients, hall.told) == ([], ["a is ready", "a is gone"])
    assert refusal(hall.hello("a", b"2", incarnation=2)) == ("left_out", "too many refusals", True)
    assert hall.turned_away == [("left_out", "too many refusals")] * 2
    assert isinstance(hall.hello("b", b"3")[0], Welcome)


# Refused by name


def refusal(answers: list[Message]) -> tuple[str, str, bool]:
    assert len(answers) == 1
    assert isinstance(answers[0], Refusal)
    return answers[0].code, answers[0].reason, answers[0].permanent


def test_another_major_version_is_refused_with_both_versions() -> None:
    major = PROTOCOL_VERSION.major + 1
    text = f"the coordinator speaks protocol {PROTOCOL_VERSION}, a speaks {major}.3"
    hall = Hall()
    assert refusal(hall.hello("a", b"1", version=(major, 3))) == ("version", text, True)
    assert hall.lobby.clients == []


def test_another_minor_version_is_welcomed() -> None:
    answers = Hall().hello("a", b"1", version=(PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor + 5))
    assert isinstance(answers[0], Welcome)


@pytest.mark.parametrize("client", ["", "a/b", "../up", "a b", "ä", "x" * 65, "-a"])
def test_an_id_that_is_no_plain_name_is_refused_with_the_id(client: str) -> None:
    hall = Hall()
    text = f"expected a client id of letters, digits and . _ -, got {client!r}"
    assert refusal(hall.hello(client, b"1")) == ("client_id", text, True)
    assert hall.lobby.clients == []


def test_a_very_long_id_is_quoted_in_part() -> None:
    assert len(refusal(Hall().hello("x" * 100_000, b"1"))[1]) < 200


def test_another_feature_dim_is_refused_with_both_numbers() -> None:
    hall = Hall()
    text = "the run's feature_dim is 6, a's net has 50"
    assert refusal(hall.join("a", feature_dim=50)) == ("feature_dim", text, True)
    assert (hall.told, hall.lobby.announced) == ([], {})
    assert hall.turned_away == [("feature_dim", text)]


@pytest.mark.parametrize(
    ("changes", "came"),
    [
        ({"class_counts": [3, 2, 1]}, "a sent 3 that sum to 6"),
        ({"class_counts": [3, 2, 0, 0, 1]}, "a sent 5 that sum to 6"),
        ({"class_counts": [3, 2, 0, 0]}, "a sent 4 that sum to 5"),
    ],
)
def test_another_label_map_is_refused_with_what_was_expected_and_came(changes: dict[str, Any], came: str) -> None:
    text = f"expected counts of 4 classes that sum to 6, {came}"
    assert refusal(Hall().join("a", **changes)) == ("label_map", text, True)


def test_a_client_without_samples_takes_part() -> None:
    hall = Hall()
    assert hall.join("a", num_train=0, num_test=0, class_counts=[0, 0, 0, 0]) == []
    assert hall.told == ["a is ready"]


@pytest.mark.parametrize("changes", [{"num_parameters": 99}, {"num_buffers": 0}])
def test_another_model_size_is_refused_where_whole_nets_are_averaged(changes: dict[str, int]) -> None:
    hall = Hall(shares_model=True)
    assert hall.join("a") == []
    code, reason, permanent = refusal(hall.join("b", **changes))
    assert (code, permanent) == ("model", True)
    assert "averages whole nets: expected 100 parameters and 10 buffers as a has, b has" in reason
    assert hall.told == ["a is ready"]
    assert hall.join("a") == []


def test_model_sizes_may_differ_where_nets_are_not_shared() -> None:
    hall = Hall()
    hall.join("a")
    assert hall.join("b", num_parameters=99) == []
    assert hall.told == ["a is ready", "b is ready"]


def test_one_refused_client_costs_the_others_nothing() -> None:
    hall = Hall()
    hall.join("a")
    hall.join("b", feature_dim=1)
    hall.hello("c", b"c", version=(99, 0))
    assert hall.answers(b"a") == []
    assert hall.take(b"a", Ping()) == "a"
    assert hall.answers(b"a") == [Pong()]


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
    assert hall.lobby.num_undelivered == 1


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
    hall.at, hall.quiet_s[b"1"] = 2 * HEARTBEAT_S, 0.5
    hall.lobby.tick(hall.at)
    assert hall.lobby.clients == ["a"]
    assert hall.lobby.next_wakeup() == 4 * HEARTBEAT_S - 0.5
    hall.at, hall.quiet_s[b"1"] = 4 * HEARTBEAT_S - 0.5, 2 * HEARTBEAT_S
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


def test_peak_memory_is_the_largest_that_was_reported() -> None:
    hall = Hall()
    hall.hello("a", b"1")
    for message in (Ping(10, 0), Ping(5, 300), Goodbye("", 20, 100)):
        hall.take(b"1", message)
    assert hall.lobby.peak_rss_bytes == {"a": (20, 300)}


# Sending


def test_who_cannot_be_reached_is_gone_and_it_is_counted() -> None:
    hall = Hall()
    hall.join("a")
    assert hall.lobby.send("a", [b"\x92\x0d\x90"], 0.0)
    hall.cut.add(b"a")
    assert not hall.lobby.send("a", [b"\x92\x0d\x90"], 0.0)
    assert not hall.lobby.send("nobody", [b"\x92\x0d\x90"], 0.0)
    assert hall.lobby.num_undelivered == 2
    assert hall.told == ["a is ready", "a is gone"]
    assert "a: a message could not be delivered" in hall.notes
    assert "nobody: a message could not be delivered" in hall.notes


# Constants


def test_constants_are_sent_only_to_those_who_do_not_hold_them() -> None:
    hall = Hall(constants=(MASKS, ETF))
    welcome, *sent = hall.hello("a", b"1", constants=["digest-masks", "of another run"])
    assert isinstance(welcome, Welcome)
    assert welcome.constants == ["digest-masks", "digest-etf"]
    assert sent == [ConstantMessage(RUN, "etf", "digest-etf")]
    assert len(hall.hello("b", b"2")) == 3
    assert hall.told == ["a was sent etf", "b was sent masks", "b was sent etf"]


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


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"num_train": 2**32, "class_counts": [2**32, 0, 0, 0]}, "label_map"),
        ({"num_test": 2**64 - 1}, "label_map"),
        ({"test_counts": [-1, 0, 0, 0]}, "label_map"),
        ({"num_parameters": 2**63}, "model"),
        ({"num_buffers": -1}, "model"),
    ],
)
def test_absurd_numbers_are_refused(changes: dict[str, Any], code: str) -> None:
    hall = Hall()
    assert refusal(hall.join("a", **changes))[::2] == (code, True)
    assert hall.told == []
