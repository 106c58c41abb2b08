"""Clients' work as Ray tasks: nothing shows that in what comes out."""

from __future__ import annotations

import importlib.util

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator
from tests.integration.simulated import comparable

RAY_WAIT_S = 110.0

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (extra `ray`)")


def simulate(pairs: PairsRun, executor: str) -> Coordinator:
    return pairs.processes.coordinator("simulate", "--config", pairs.config_path, "--executor", executor, name=executor)


@needs_ray
@pytest.mark.slow
def test_ray_makes_the_bits_of_this_process_and_asks_again_for_a_lost_client(pairs: PairsRun) -> None:
    own = simulate(pairs, "own")
    assert own.wait() == 0
    pairs.gates.shut("client-01", how="die")
    run = simulate(pairs, "ray")
    pairs.gates.see("client-01")
    pairs.gates.open("client-01")
    assert run.wait(RAY_WAIT_S) == 0, run.said
    assert comparable(run.summary) == comparable(own.summary)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_setting_is_refused_in_words(pairs: PairsRun) -> None:
    run = simulate(pairs, "ray")
    assert run.wait() == 2
    assert "Ray is not installed; pip install 'protoedge[ray]'" in run.said
