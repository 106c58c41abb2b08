"""Run constants on their way to clients: under the names that the run gives them, and again where one was lost."""

from __future__ import annotations

import pytest

from models import checkpoint
from models.checkpoint import state_hash
from tests.integration.pairs_run import PairsRun
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

TWINS = """
from dataclasses import replace
import pairs
class TwinsServer(pairs.PairsServer):
    def constants(self):
        made = super().constants()
        return {"twin": made["offset"], **made}
METHOD = replace(pairs.METHOD, name="twins", server="twins:TwinsServer")
"""


@pytest.mark.slow
def test_two_with_the_same_arrays_are_there_by_their_names_and_cost_what_they_do_in_a_simulation(
    pairs: PairsRun,
) -> None:
    (pairs.folder / "twins.py").write_text(TWINS)
    pairs.configure(method={"name": "twins:METHOD"})
    runs = pairs.loopback(), pairs.simulate()
    assert [run.wait() for run in runs] == [ExitCode.FINISHED] * 2
    over_tcp, simulated = (run.summary for run in runs)
    assert over_tcp["global_hash"] == simulated["global_hash"] == pairs.undisturbed_hashes()
    assert over_tcp["init"]["encoded_bytes"] == simulated["init"]["encoded_bytes"] > 0


@pytest.mark.slow
def test_one_that_is_broken_since_an_earlier_run_is_sent_again(pairs: PairsRun) -> None:
    assert pairs.serve_all(0, 1)[0].wait() == ExitCode.FINISHED
    (constant,) = (pairs.folder / "state" / client_id(0) / "constants").iterdir()
    whole, _ = checkpoint.read(constant)
    constant.write_bytes(b"broken")
    coordinator = pairs.serve(name="again")
    clients = [pairs.client(index, coordinator.address) for index in range(2)]
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert "run constants are gone that this client said to hold" in clients[0].said
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    assert state_hash(checkpoint.read(constant)[0]) == state_hash(whole)
