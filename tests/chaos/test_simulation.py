"""A simulation that is killed goes on with `--resume`, and nothing shows that in what comes out."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.kills import Kill, Tickets, draw_kills, points
from tests.chaos.supervisor import NUM_CLIENTS, see_nothing_lost
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator
from wire.exit_codes import ExitCode

LATER = 3
"""So often must a simulation have come to a point for there to be something to go on from."""

NOT_SIMULATED = ("update.", "ack.", "task.", "run.over", "goodbyes.", "summary.", "buffer.", "constants.")


def simulate(pairs: PairsRun, tickets: Tickets) -> Coordinator:
    """Simulate, and go on after each kill, until the run is finished; return what has finished it."""
    pairs.processes.environment.update(tickets.environment("coordinator"))
    run = pairs.processes.coordinator("simulate", "--config", pairs.config_path, name="simulate")
    for number in range(30):
        if (code := run.wait()) == ExitCode.FINISHED:
            return run
        assert code == -signal.SIGKILL, run.said
        run = pairs.processes.coordinator("simulate", "--resume", run.folder, name=f"resumed-{number}")
    raise AssertionError("more kills than tickets")


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point == "file.renamed" else pytest.mark.chaos)
        for point in points("coordinator")
        if not point.startswith(NOT_SIMULATED)
    ],
)
def test_a_kill_changes_nothing(pairs: PairsRun, point: str) -> None:
    pairs.configure(run={"num_rounds": 4})
    tickets = Tickets(pairs.folder / "tickets", [Kill("coordinator", point, LATER)])
    ended = simulate(pairs, tickets)
    assert tickets.left == []
    assert ended.summary["global_hash"] == pairs.undisturbed_hashes()
    see_nothing_lost(ended, num_exchanges=2)
    assert not (ended.folder / "clients").exists()


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(10))
def test_kills_change_nothing(pairs: PairsRun, seed: int) -> None:
    pairs.configure(run={"num_rounds": 6})
    drawn = {kill for draw in range(5) for kill in draw_kills(10 * seed + draw, NUM_CLIENTS)}
    kills = sorted((kill for kill in drawn if kill.process == "coordinator" and kill.count >= LATER), key=str)
    tickets = Tickets(pairs.folder / "tickets", kills)
    ended = simulate(pairs, tickets)
    assert ended.summary["global_hash"] == pairs.undisturbed_hashes()
    see_nothing_lost(ended, num_exchanges=2)
