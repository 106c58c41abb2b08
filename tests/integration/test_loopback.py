"""A coordinator and its clients as real processes on this machine, undisturbed."""

from __future__ import annotations

import json

import pytest

from tests.integration.pairs_run import CLASSES, METHOD, PairsRun, save_samples
from tests.integration.processes import until
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

SUMMARY_KEYS = {
    "run_id", "method", "mode", "seed", "num_rounds", "rounds_completed", "num_clients", "accuracy", "accuracy_by_rule",
    "uplink", "downlink", "init", "global_hash", "round_s", "coordination_s", "memory", "updates", "versions",
}  # fmt: skip

TRAFFIC_KEYS = {"elements", "predicted_elements", "payload_bytes", "encoded_bytes", "wire_bytes"}

MEMORY_KEYS = {f"{kind}_peak_rss_bytes" for kind in ("coordinator", "aggregator", "client", "trainer")}


def test_a_run_leaves_its_folder_and_no_process(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 3}, data={"num_clients": 3})
    run = pairs.loopback()
    assert run.wait() == ExitCode.FINISHED
    pairs.processes.see_none_left()
    assert run.printed[0] == run.printed[-1] == f"run folder: {run.folder.relative_to(pairs.folder)}"
    assert run.printed[-2] == f"report: {run.folder.relative_to(pairs.folder) / 'report.html'}"
    assert run.folder.name in (run.folder / "report.html").read_text()
    written = {path.name for path in run.folder.iterdir()}
    assert written >= {
        "config.toml", "store.sqlite", "metrics.jsonl", "summary.json", "global.safetensors", "clients", "log.txt",
    }  # fmt: skip
    assert {path.name for path in (run.folder / "clients").iterdir()} == {client_id(index) for index in range(3)}
    histogram = json.loads((run.folder / "histogram.json").read_text())
    assert histogram["classes"] == CLASSES
    assert sum(sum(counts["train"] + counts["test"]) for counts in histogram["clients"].values()) == 40


def test_the_summary_is_as_contracted_and_predicted_is_measured(pairs: PairsRun) -> None:
    run = pairs.loopback("--set", "run.seed=5")
    assert run.wait() == ExitCode.FINISHED
    summary = run.summary
    assert set(summary) >= SUMMARY_KEYS
    stable = {key: summary[key] for key in ("method", "mode", "seed", "num_rounds", "rounds_completed", "num_clients")}
    assert list(stable.values()) == [METHOD, "loopback", 5, 2, 2, 2]
    assert summary["run_id"] == run.folder.name
    assert len(summary["global_hash"]) == 2
    assert summary["global_hash"] != pairs.undisturbed_hashes()  # of another seed
    assert summary["updates"] == {"accepted": 8, "duplicate": 0, "stale": 0, "refused": 0}
    assert set(summary["memory"]) == MEMORY_KEYS
    assert all(10e6 < figure < 200e6 for figure in summary["memory"].values())
    assert summary["init"]["payload_bytes"] == 2 * 8 * 4  # the constant, once per client
    updates = 2 * 2  # clients x rounds, of each exchange
    for direction, elements, count_bytes in (("uplink", 2 * 8, 2 * 4), ("downlink", 8, 0)):
        traffic = summary[direction]
        assert set(traffic) >= TRAFFIC_KEYS
        assert traffic["elements"] == traffic["predicted_elements"] == updates * elements
        assert traffic["payload_bytes"] == traffic["predicted_payload_bytes"] == updates * (elements * 4 + count_bytes)
        assert traffic["payload_bytes"] < traffic["encoded_bytes"] < traffic["wire_bytes"]


def test_the_same_seed_gives_the_same_whoever_starts_and_answers_first(pairs: PairsRun) -> None:
    pairs.configure(data={"num_clients": 3})
    once, again = pairs.loopback(), pairs.loopback(name="again")
    assert (once.wait(), again.wait()) == (ExitCode.FINISHED, ExitCode.FINISHED)
    assert once.summary["global_hash"] == again.summary["global_hash"] == pairs.undisturbed_hashes()

    pairs.gates.shut(client_id(0))
    served = pairs.serve()
    for index in (2, 1, 0):  # the next one starts when the last one is there
        pairs.client(index, served.address)
        served.hear(f"{client_id(index)} joined")
    pairs.gates.see(client_id(0))
    until(lambda: served.num_stored(exchange=1) == 2, "the others have answered")
    pairs.gates.open(client_id(0))
    assert served.wait() == ExitCode.FINISHED
    assert served.summary["mode"] == "serve"
    assert served.summary["global_hash"] == once.summary["global_hash"]
    for direction in ("uplink", "downlink"):
        assert served.summary[direction]["payload_bytes"] == once.summary[direction]["payload_bytes"]


@pytest.mark.parametrize("width", [70_000, 300_000])
def test_large_uplinks_are_granted_and_spilled(pairs: PairsRun, width: int) -> None:
    """Above 256 KiB an uplink lies in a file, above 1 MiB it waits for its grant before; the result is the same."""
    pairs.configure(model={"feature_dim": width}, run={"num_rounds": 1})
    pairs.gates.shut(client_id(1))
    run = pairs.loopback()
    pairs.gates.see(client_id(1))
    spilled = run.folder / "store.buffers"
    until(lambda: [path for path in spilled.glob("*") if path.stat().st_size == width * 4 + 4], "an uplink in a file")
    pairs.gates.open(client_id(1))
    assert run.wait() == ExitCode.FINISHED
    assert run.summary["global_hash"] == pairs.undisturbed_hashes()
    assert run.summary["uplink"]["payload_bytes"] == 2 * 2 * (width * 4 + 4)
    assert list(spilled.glob("*")) == []


def test_a_client_without_samples_does_no_harm(pairs: PairsRun) -> None:
    save_samples(pairs.folder / "data.npz", 2)
    pairs.configure(data={"num_clients": 3})
    run = pairs.loopback()
    assert run.wait() == ExitCode.FINISHED
    assert run.summary["clients"][client_id(2)]["num_train"] == 0
    assert run.summary["updates"]["accepted"] == 3 * 2 * 2
    assert run.summary["global_hash"] == pairs.undisturbed_hashes()


def test_without_any_samples_rounds_fail_and_nothing_changes(pairs: PairsRun) -> None:
    pairs.configure(data={"partition": "pairs:nobody"}, run={"num_rounds": 5})
    run = pairs.loopback()
    assert run.wait() == ExitCode.FAILED
    run.hear("FAILED: the total weight is 0", times=3)
    assert run.summary["rounds_completed"] == 0
    assert run.summary["global_hash"] == pairs.expected_hashes([None] * 3)
