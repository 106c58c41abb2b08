"""What is made of the peers' figures; the figures themselves are a benchmark's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.benchmarks.peers import marks
from tests.benchmarks.peers.claims import claims
from tests.benchmarks.peers.findings import findings
from tests.benchmarks.peers.grpc import Grpc
from tests.benchmarks.peers.measured import Measured
from tests.benchmarks.peers.notebook import Missing, Notebook
from tests.benchmarks.peers.ours import OursInMemory
from tests.benchmarks.peers.payloads import PAYLOADS
from tests.benchmarks.peers.plan import TURNS, Plan, run_key
from tests.benchmarks.peers.processes import PeerError
from tests.benchmarks.peers.rows import Row
from tests.benchmarks.peers.seen import Seen

SMALL = "10 x 50"
MEASURED = Measured(
    num_rounds=3, round_ms=2.0, round_p95_ms=3.0, coordination_ms=1.5, first_round_s=1.0, server_mib=80.0,
    client_mib=70.0, client_cpu_s=0.4,
)  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(Notebook(tmp_path), clients=(2, 8, 20), payloads=(SMALL,))


def note(plan: Plan, name: str, num_clients: int, *rounds_ms: float) -> None:
    for turn, round_ms in enumerate(rounds_ms):
        plan.notebook.keep(run_key(name, num_clients, SMALL, turn), partial(replace, MEASURED, round_ms=round_ms))


def test_clients_and_rounds_have_arrays_of_their_own() -> None:
    sent = {PAYLOADS[SMALL].answer(client, times).tobytes() for client in range(3) for times in range(1, 4)}
    assert len(sent) == 9


def test_marks_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert marks.read(tmp_path / "marks") == []
    noted = marks.Marks(str(tmp_path / "marks"))
    for num_results in (2, 1):
        noted.sent()
        noted.came(num_results)
    first, second = marks.read(tmp_path / "marks")
    assert first.sent_s <= first.came_s <= second.sent_s
    assert (first.num_results, second.num_results) == (2, 1)
    assert marks.count(tmp_path / "marks") == 2


def test_a_round_lasts_from_the_results_of_the_one_before_to_its_own() -> None:
    assert marks.took_s([]) == []
    noted = [marks.Mark(1.0, 1.5, 2), marks.Mark(1.75, 2.5, 2), marks.Mark(2.5, 4.0, 2)]
    assert marks.took_s(noted) == [0.5, 1.0, 1.5]


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    notebook.keep("run", lambda: MEASURED)
    notebook.keep("run", lambda: pytest.fail("measured again"))
    assert Notebook(tmp_path).read("run", Measured) == MEASURED


def test_what_could_not_be_measured_is_kept_with_the_reason_alone(tmp_path: Path) -> None:
    def fail() -> Measured:
        raise PeerError("expected a first round within 180 s", "lines of a log")

    notebook = Notebook(tmp_path)
    notebook.keep("run", fail)
    assert notebook.read("run", Measured) == Missing("expected a first round within 180 s")


def test_turns_are_joined_by_their_medians(plan: Plan) -> None:
    note(plan, Grpc.name, 2, 9.0, 4.0, 5.0)
    assert Seen(plan).run(Grpc.name, 2, SMALL) == replace(MEASURED, round_ms=5.0)


def test_a_turn_that_is_missing_is_not_passed_over(plan: Plan) -> None:
    note(plan, Grpc.name, 2, *[4.0] * (TURNS - 1))
    assert isinstance(Seen(plan).run(Grpc.name, 2, SMALL), Missing)


def test_a_ratio_is_how_many_times_ours_a_peer_takes() -> None:
    row = Row("round", {OursInMemory.name: 2.0, Grpc.name: 5.0})
    assert row.ratios() == ["round", "2.5", "", "", "", ""]


@pytest.mark.parametrize(("peer_ms", "holds"), [((4.0, 4.0, 6.0), True), ((4.0, 4.0, 5.9), False), ((4.0, 4.0), None)])
def test_a_claim_holds_for_all_numbers_of_clients_or_not(
    plan: Plan, peer_ms: tuple[float, ...], holds: bool | None
) -> None:
    for num_clients, round_ms in zip(plan.clients, peer_ms, strict=False):
        note(plan, Grpc.name, num_clients, *[round_ms] * TURNS)
        note(plan, OursInMemory.name, num_clients, *[2.0] * TURNS)
    assert claims(Seen(plan))[0].holds is holds


def test_findings_say_why_a_cell_is_empty(plan: Plan) -> None:
    def fail() -> Measured:
        raise PeerError("expected a first round within 180 s")

    plan.notebook.keep(run_key(Grpc.name, 20, SMALL, 0), fail)
    figures = findings(plan).tables[0]
    assert "gRPC: expected a first round within 180 s" in figures.note
