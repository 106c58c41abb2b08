from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models import checkpoint
from models.client_states import ClientStates

RUN = "run-5"
Make = Callable[..., ClientStates]


@pytest.fixture(params=["memory", "folder"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    folder = tmp_path / "states" if request.param == "folder" else None
    return lambda num_exchanges=1, run=RUN: ClientStates(folder, run, num_exchanges)


def state(number: float) -> dict[str, np.ndarray]:
    return {"x": np.array([number])}


def begun(states: ClientStates, round: int, exchange: int, kept: int) -> float | None:
    arrays = states.begin(round, exchange, kept)
    return None if arrays is None else float(arrays["x"][0])


def test_the_first_round_begins_from_the_initial_state(make: Make) -> None:
    assert begun(make(), 1, 0, kept=0) is None


def test_a_round_that_counted_is_where_the_next_begins(make: Make) -> None:
    states = make()
    for number in range(1, 4):
        assert begun(states, number, 0, kept=number - 1) == (number - 1 or None)
        states.save(number, 0, state(number))


def test_a_round_that_did_not_count_is_undone(make: Make) -> None:
    states = make()
    states.save(1, 0, state(1))
    states.begin(2, 0, kept=1)
    states.save(2, 0, state(2))
    assert begun(states, 3, 0, kept=1) == 1
    states.save(3, 0, state(3))
    assert begun(states, 4, 0, kept=3) == 3


def test_a_first_round_that_did_not_count_gives_the_initial_state_back(make: Make) -> None:
    states = make()
    states.save(1, 0, state(1))
    assert begun(states, 2, 0, kept=0) is None


def test_a_round_begun_but_not_finished_leaves_no_trace(make: Make) -> None:
    states = make()
    states.save(1, 0, state(1))
    assert begun(states, 2, 0, kept=1) == 1
    assert begun(states, 3, 0, kept=1) == 1


def test_exchanges_build_on_each_other_and_a_repeated_one_on_the_one_before(make: Make) -> None:
    states = make(num_exchanges=3)
    states.begin(1, 0, kept=0)
    states.save(1, 0, state(10))
    assert begun(states, 1, 1, kept=0) == 10
    states.save(1, 1, state(11))
    assert begun(states, 1, 1, kept=0) == 10
    states.save(1, 1, state(11))
    assert begun(states, 1, 2, kept=0) == 11
    states.save(1, 2, state(12))
    assert begun(states, 2, 0, kept=1) == 12


def test_a_repeated_round_begins_from_its_start(make: Make) -> None:
    states = make(num_exchanges=2)
    states.save(1, 0, state(10))
    states.save(1, 1, state(11))
    assert begun(states, 2, 0, kept=1) == 11
    states.save(2, 0, state(20))
    states.save(2, 1, state(21))
    assert begun(states, 2, 0, kept=1) == 11
    assert begun(states, 2, 1, kept=1) == 11


def test_a_missed_exchange_is_passed_over(make: Make) -> None:
    states = make(num_exchanges=3)
    assert begun(states, 1, 1, kept=0) is None
    states.save(1, 1, state(11))
    assert begun(states, 1, 2, kept=0) == 11


def test_the_last_evaluation_follows_a_round_that_counted_or_did_not(make: Make) -> None:
    for kept, expected in ((2, 21.0), (1, 11.0)):
        states = make(num_exchanges=2, run=f"{RUN}-{kept}")
        states.save(1, 0, state(10))
        states.save(1, 1, state(11))
        states.begin(2, 0, kept=1)
        states.save(2, 0, state(20))
        states.save(2, 1, state(21))
        assert begun(states, 2, 2, kept=kept) == expected
        states.save(2, 2, state(99))
        assert begun(states, 2, 2, kept=kept) == expected


def test_a_state_that_is_gone_is_missed_until_a_round_counts_again(make: Make, tmp_path: Path) -> None:
    states = make(num_exchanges=2, run="first")
    for round in (1, 2):
        for exchange in (0, 1):
            states.begin(round, exchange, kept=round - 1)
            assert states.lack == ""
            states.save(round, exchange, state(round))
    states = make(num_exchanges=2, run="second")  # which holds nothing of this one
    states.begin(3, 0, kept=2)
    assert states.lack == "expected to find its state after round 2, found none, and begins anew"
    states.save(3, 0, state(30))
    states.begin(3, 1, kept=2)
    assert states.lack == ""
    states.save(3, 1, state(31))
    states.begin(4, 0, kept=3)
    assert states.lack == ""


def test_an_older_state_than_the_one_to_go_on_from_is_told(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, RUN)
    for round in (1, 2, 3):
        states.begin(round, 0, kept=round - 1)
        states.save(round, 0, state(round))
    (tmp_path / "current-0.safetensors").unlink()
    states = ClientStates(tmp_path, RUN)
    assert begun(states, 4, 0, kept=3) == 2
    assert states.lack == "expected to find its state after round 3, found the one after round 2, and goes on from that"


def test_a_state_within_a_round_is_not_taken_for_its_outcome(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, RUN, num_exchanges=2)
    for round in (1, 2):
        for exchange in (0, 1):
            states.begin(round, exchange, kept=round - 1)
            states.save(round, exchange, state(10 * round + exchange))
    (tmp_path / "current-1.safetensors").unlink()
    states = ClientStates(tmp_path, RUN, num_exchanges=2)
    assert begun(states, 3, 0, kept=2) == 11
    assert states.lack == "expected to find its state after round 2, found the one after round 1, and goes on from that"


@pytest.mark.parametrize(
    ("num_gone", "found"), [(1, "the one after exchange 0 of round 2"), (2, "the one after round 1")]
)
def test_a_state_that_is_gone_within_a_round_is_told(tmp_path: Path, num_gone: int, found: str) -> None:
    states = ClientStates(tmp_path, RUN, num_exchanges=3)
    for round, exchange in ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1)):
        states.begin(round, exchange, kept=round if exchange else round - 1)
        assert states.lack == ""
        states.save(round, exchange, state(10 * round + exchange))
        states.save_uplink(round, exchange, [b"uplink"])
    for gone in (1, 0)[:num_gone]:
        (tmp_path / f"current-{gone}.safetensors").unlink()
    states = ClientStates(tmp_path, RUN, num_exchanges=3)
    states.begin(2, 2, kept=2)
    assert (
        states.lack == f"expected to find its state after exchange 1 of round 2, found {found}, and goes on from that"
    )


def test_nor_is_one_missed_whose_exchange_did_not_count(make: Make) -> None:
    states = make(num_exchanges=2)
    assert begun(states, 1, 1, kept=0) is None
    assert states.lack == ""


@pytest.mark.parametrize("kept", [0, 1])
def test_nothing_is_missed_after_a_round_that_did_not_count(make: Make, kept: int) -> None:
    states = make()
    states.begin(1, 0, kept=0)
    states.save(1, 0, state(1))
    states.begin(2, 0, kept)
    assert states.lack == ""


def test_held_arrays_are_not_the_callers(make: Make) -> None:
    states, arrays = make(), state(1)
    states.save(1, 0, arrays)
    arrays["x"][0] = 99
    assert begun(states, 2, 0, kept=1) == 1


def test_an_uplink_comes_back_for_its_own_exchange_only(make: Make) -> None:
    states = make(num_exchanges=2)
    assert states.load_uplink(1, 0) is None
    states.save(1, 0, state(1))
    states.save_uplink(1, 0, [b"header", b""])
    assert states.load_uplink(1, 0) == [b"header", b""]
    assert states.load_uplink(1, 1) is None
    assert states.load_uplink(2, 0) is None


def test_an_uplink_is_gone_once_its_exchange_is_begun_again(make: Make) -> None:
    states = make(num_exchanges=2)
    for exchange in (0, 1):
        states.save(1, exchange, state(exchange))
        states.save_uplink(1, exchange, [b"h", b"b"])
    states.begin(1, 1, kept=0)
    assert states.load_uplink(1, 0) == [b"h", b"b"]
    assert states.load_uplink(1, 1) is None
    states.begin(2, 0, kept=0)
    assert states.load_uplink(1, 0) is None


@pytest.mark.parametrize("kept", [0, 1])
def test_no_uplink_outlives_its_round(tmp_path: Path, kept: int) -> None:
    states = ClientStates(tmp_path, RUN)
    states.save(1, 0, state(1))
    states.save_uplink(1, 0, [b"h", b"b"])
    states.begin(2, 0, kept)
    assert [path.name for path in tmp_path.iterdir()] == ["round_start.safetensors"] * kept


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, RUN, num_exchanges=2)
    states.save(1, 0, state(10))
    states.save(1, 1, state(11))
    states.begin(2, 0, kept=1)
    states.save(2, 0, state(20))
    states.save_uplink(2, 0, [b"h", b"body"])
    again = ClientStates(tmp_path, RUN, num_exchanges=2)
    assert again.load_uplink(2, 0) == [b"h", b"body"]
    assert begun(again, 2, 1, kept=1) == 20
    assert begun(ClientStates(tmp_path, RUN, num_exchanges=2), 3, 0, kept=1) == 11


def test_states_of_another_run_are_removed_and_nothing_else(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, RUN)
    states.save(1, 0, state(1))
    states.save_uplink(1, 0, [b"h", b"b"])
    states.begin(2, 0, kept=1)
    states.save(2, 0, state(2))
    (tmp_path / "current-0.safetensors.tmp").write_bytes(b"torn")
    checkpoint.write(tmp_path / "other.safetensors", state(7))
    (tmp_path / "notes.tmp").write_text("mine")
    other = ClientStates(tmp_path, RUN + "-other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.tmp", "other.safetensors"]
    assert begun(other, 2, 0, kept=1) is None


def test_an_empty_state_is_not_written(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, RUN)
    assert states.begin(1, 0, kept=0) is None
    states.save(1, 0, {})
    assert list(tmp_path.iterdir()) == []
    assert states.begin(2, 0, kept=1) is None


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "round_start.safetensors").write_bytes(b"torn")
    with pytest.raises(
        checkpoint.CheckpointError, match=r"round_start.*; remove it, and this client goes on without it"
    ):
        ClientStates(tmp_path, RUN)


class Killed(BaseException):
    """The process died between two system calls."""


class Executioner:
    """Kills before the file operation of a given number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        for name in ("replace", "unlink", "open"):
            monkeypatch.setattr(Path, name, self._deadly(getattr(Path, name)))

    def _deadly(self, operation: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            if self.left == 0:
                self.left = -1
                raise Killed
            self.left -= 1
            return operation(*arguments, **named)

        return run


ROUNDS_THAT_COUNT = (1, 2, 4, 5, 8)
NUM_ROUNDS, NUM_EXCHANGES = 8, 2


def take_part(states: ClientStates, round: int, exchange: int, kept: int) -> bytes:
    """What a trainer does for a task: send a held uplink again, or train from where the exchange begins."""
    held = states.load_uplink(round, exchange)
    if held is not None:
        return held[1]
    arrays = states.begin(round, exchange, kept)
    trained = 3 * float(0 if arrays is None else arrays["x"][0]) + 10 * round + exchange
    states.save(round, exchange, state(trained))
    states.save_uplink(round, exchange, [b"h", str(trained).encode()])
    return str(trained).encode()


def live(folder: Path, kill_at: int, executioner: Executioner) -> tuple[list[bytes], bool]:
    """Go through all rounds, killed once; return what was sent, and whether the kill came to pass."""
    executioner.left = kill_at
    sent, kept, killed, states = [], 0, False, None
    for task in range(NUM_ROUNDS * NUM_EXCHANGES):
        round, exchange = 1 + task // NUM_EXCHANGES, task % NUM_EXCHANGES
        while True:
            try:
                states = states or ClientStates(folder, RUN, NUM_EXCHANGES)
                sent.append(take_part(states, round, exchange, kept))
                break
            except Killed:
                killed, states = True, None
        if exchange == NUM_EXCHANGES - 1 and round in ROUNDS_THAT_COUNT:
            kept = round
    return sent, killed


def test_a_kill_between_any_two_file_operations_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    executioner = Executioner(monkeypatch)
    undisturbed, _ = live(tmp_path / "undisturbed", -1, executioner)
    num_kills = 0
    while True:
        sent, killed = live(tmp_path / str(num_kills), num_kills, executioner)
        assert sent == undisturbed, f"killed before file operation {num_kills}"
        if not killed:
            break
        num_kills += 1
    assert num_kills > 4 * NUM_ROUNDS * NUM_EXCHANGES, "each task writes two files, in two operations each"


AHEAD = "the coordinator's store is older than this client: expected to find its state after round {}, found the one "


def gone_back(states: ClientStates, rounds: range, num_exchanges: int = 1) -> list[str]:
    """What is told while rounds are done that all count, each adding 1 to the state."""
    told = []
    for round in rounds:
        for exchange in range(num_exchanges):
            found = begun(states, round, exchange, kept=round if exchange else round - 1)
            told += [states.lack] if states.lack else []
            states.save(round, exchange, state((found or 0) + 1))
            states.save_uplink(round, exchange, [b"uplink"])
    return told


@pytest.mark.parametrize("num_exchanges", [1, 2])
@pytest.mark.parametrize("back_to", [0, 5, 8])
def test_a_client_ahead_of_its_coordinator_goes_on_from_its_state(make: Make, num_exchanges: int, back_to: int) -> None:
    states = make(num_exchanges)
    assert gone_back(states, range(1, 11), num_exchanges) == []
    told = gone_back(states, range(back_to + 1, 13), num_exchanges)
    assert told == [AHEAD.format(back_to) + "after round 9, and goes on from that"]
    assert begun(states, 12, num_exchanges, kept=12) == num_exchanges * (9 + 12 - back_to)
    assert states.lack == ""


def test_a_client_ahead_within_a_round_trains_it_from_the_state_that_it_has(make: Make) -> None:
    states = make(num_exchanges=2)
    gone_back(states, range(1, 4), 2)
    states.begin(4, 0, kept=3)
    assert begun(states, 3, 1, kept=3) == 6
    assert states.lack == AHEAD.format(2) + "after round 3, and goes on from that"
    states.save(3, 1, state(7))
    assert (begun(states, 4, 0, kept=3), states.lack) == (7, "")


def test_a_kill_while_a_state_that_is_ahead_is_taken_up_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    executioner, killed, num_kills = Executioner(monkeypatch), True, 0
    while killed:
        folder, killed = tmp_path / str(num_kills), False
        states = ClientStates(folder, RUN, num_exchanges=2)
        gone_back(states, range(1, 4), 2)
        monkeypatch.setattr(states, "_remove", lambda names: None)  # a kill leaves what the outcome supersedes
        states.begin(4, 0, kept=3)
        states, executioner.left = ClientStates(folder, RUN, num_exchanges=2), num_kills
        try:
            states.begin(2, 0, kept=1)
        except Killed:
            killed, states = True, ClientStates(folder, RUN, num_exchanges=2)
            num_kills += 1
        executioner.left = -1
        assert begun(states, 2, 0, kept=1) == 6
        assert [path.name for path in folder.iterdir()] == ["round_start.safetensors"]
        assert gone_back(states, range(2, 4), 2) == []
    assert num_kills == 3, "what is ignored is removed, and the state written in two operations"
