"""The lobby refuses by name what does not fit the run, with what came and what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.clients.membership import PROBE_S
from coordinator.clients.put_off import FORGOTTEN_S
from tests.coordinator.hall import MASKS, Hall, refusal
from wire.messages import Constant, Goodbye, Ping, Pong, Welcome
from wire.version import PROTOCOL_VERSION


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


def test_of_two_clients_with_one_part_of_the_data_the_second_waits_but_not_one_that_takes_the_place_of_another() -> (
    None
):
    hall, part = Hall(), {"data_index": 0}
    hall.hello("a", b"1", device=part)
    text = "b and a have [data] index = 0: expected another part for each client"
    for _ in range(2):
        assert refusal(hall.hello("b", b"2", device=part)) == ("data_index", text, False)
    assert hall.notes == ["a joined", f"{text}; b comes in once a has left: correct whichever is wrong"]
    assert (hall.turned_away, hall.lobby.put_off) == ([], {"b": "[data] index = 0, which a has"})
    assert isinstance(hall.hello("b", b"2", device={"data_index": 1})[0], Welcome)
    assert isinstance(hall.hello("a", b"1", device=part)[0], Welcome)
    assert hall.lobby.put_off == {}
    hall.take(b"1", Goodbye("finished"))
    assert isinstance(hall.hello("c", b"3", device=part)[0], Welcome)


def test_a_client_that_was_put_off_and_asks_no_more_is_forgotten() -> None:
    hall, part = Hall(), {"data_index": 0}
    hall.hello("a", b"1", device=part)
    hall.hello("b", b"2", device=part)
    for hall.at in (50.0, 100.0):
        hall.take(b"1", Ping())
        hall.hello("b", b"2", device=part)
        hall.lobby.tick(hall.at)
        assert list(hall.lobby.put_off) == ["b"]
    hall.take(b"1", Goodbye("finished"))
    assert hall.lobby.next_wakeup() == 100.0 + FORGOTTEN_S
    hall.lobby.tick(100.0 + FORGOTTEN_S)
    assert (hall.lobby.put_off, hall.lobby.next_wakeup()) == ({}, None)


def test_what_a_refused_duplicate_says_is_not_taken_for_the_words_of_the_client_that_is_here() -> None:
    hall = Hall()
    hall.hello("a", b"1", device={"data_index": 0})
    assert hall.hello("a", b"2", incarnation=2, device={"data_index": 1}) == []
    hall.take(b"1", Pong())
    assert refusal(hall.answers(b"2"))[0] == "duplicate_client"
    assert isinstance(hall.hello("b", b"3", device={"data_index": 1})[0], Welcome)
    assert refusal(hall.hello("c", b"4", device={"data_index": 0}))[0] == "data_index"


def test_a_newcomer_that_takes_a_silent_ones_place_has_its_own_words() -> None:
    hall = Hall(constants=(MASKS,))
    hall.hello("a", b"1", device={"data_index": 0}, constants=["digest-masks"])
    hall.hello("a", b"2", incarnation=2, device={"data_index": 1})
    hall.lobby.tick(PROBE_S)
    assert [type(answer) for answer in hall.answers(b"2")] == [Welcome, Constant]
    assert hall.joined[-1] == ("a", b"2", {"data_index": 1})
    assert isinstance(hall.hello("b", b"3", device={"data_index": 0})[0], Welcome)


@pytest.mark.parametrize("device", [{}, {"data_index": None}, {"data_index": "0"}])
def test_clients_with_data_of_their_own_have_no_part(device: dict[str, Any]) -> None:
    hall = Hall()
    assert isinstance(hall.hello("a", b"1", device=device)[0], Welcome)
    assert isinstance(hall.hello("b", b"2", device=device)[0], Welcome)


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
