"""Several kills in one run, anywhere, by the seed: it ends as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import NEEDED
from tests.chaos.kills import draw_kills
from tests.chaos.supervisor import NUM_CLIENTS, Supervisor, see_nothing_lost
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes
from tests.integration.served_run import ServedRun
from tests.integration.simulated import comparable, simulated_here

NUM_ROUNDS = 6

TRAINED: dict[str, dict[str, Any]] = {
    "fedproto": {"num_exchanges": 1},
    "tinyproto-ft": {"num_exchanges": 1, "method": {"prototype_dim": 4, "server_epochs": 5}},
    "refprotofl": {"num_exchanges": 2, "data": {"public_per_class": 2}},
}
"""Methods with nets, by name: how many exchanges a round has, and settings that make it small."""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 100))])
def test_kills_change_nothing(pairs: PairsRun, seed: int) -> None:
    pairs.configure(run={"num_rounds": NUM_ROUNDS}, model={"feature_dim": (8, 70_000)[seed % 2]})
    ended = Supervisor(pairs, draw_kills(seed, NUM_CLIENTS)).finish()
    assert ended.summary["global_hash"] == pairs.undisturbed_hashes()
    see_nothing_lost(ended, num_exchanges=2)


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", TRAINED)
def test_kills_change_no_net_and_no_accuracy(tmp_path: Path, processes: Processes, name: str, seed: int) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    tables: dict[str, dict[str, Any]] = {
        "run": {"num_rounds": NUM_ROUNDS},
        "method": {"name": name, **TRAINED[name].get("method", {})},
        "data": {**NEEDED["data"], **TRAINED[name].get("data", {})},
        "round": NEEDED["round"],
        "model": {"name": "mlp", "feature_dim": 16},
        "training": {"local_epochs": 1, "threads": 1},
        "transport": {"heartbeat_s": 1.0},
    }
    run = ServedRun(tmp_path, processes, tables)
    ended = Supervisor(run, draw_kills(seed, NUM_CLIENTS)).finish()
    see_nothing_lost(ended, TRAINED[name]["num_exchanges"])
    undisturbed = simulated_here(tmp_path / "simulated", ["--config", str(run.config_path)])
    assert comparable(ended.summary) == comparable(undisturbed)
