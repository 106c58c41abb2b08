"""The page of a run of 100 rounds and 50 clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("jinja2")

from msgspec.structs import replace

from coordinator.config import load
from coordinator.metrics.ledger import Ledger
from coordinator.report.page import run_page
from coordinator.report.reading import read_run
from coordinator.store.run_folder import RunFolder
from tests.coordinator.accounting import READY, SPEC, TASK, TWO, UPDATE, report, scored
from tests.coordinator.report.runs import MEMORY, SETTINGS

NUM_ROUNDS, NUM_CLIENTS = 100, 50
MAX_BYTES = 3 * 2**20


def large_run(parent: Path) -> RunFolder:
    """Make the folder of a run that kept its store in memory, so that there is one file of lines to write."""
    config = load(None, [f"run.dir={parent}", *SETTINGS, "run.store=memory", f"run.num_rounds={NUM_ROUNDS}"])
    folder = RunFolder.create(config, "20260131-235959")
    ledger = Ledger(SPEC, TWO)
    clients = [f"client-{number:02}" for number in range(NUM_CLIENTS)]
    for client in clients:
        ledger.announce(client, replace(READY["ann"], num_test=20))
    folder.write_metrics(line for round in range(1, NUM_ROUNDS + 1) for line in round_lines(ledger, clients, round))
    counts = {client: {"train": READY["ann"].class_counts, "test": [1, 2, 3, 4]} for client in clients}
    folder.histogram_path.write_text(json.dumps({"classes": SPEC.classes, "clients": counts}))
    folder.write_summary({**ledger.summary("loopback", MEMORY, {}), "run_id": folder.run_id, "outcome": "finished"})
    return folder


def round_lines(ledger: Ledger, clients: list[str], round: int) -> list[str]:
    """Return all lines of one round, in which client n takes n hundredths of a second longer than the first."""
    at, lines = 10.0 * round, []
    ledger.round_opened(round, at)
    for index in (0, 1):
        ledger.exchange_opened(round, index, clients, at)
        for number, client in enumerate(clients):
            ledger.task_sent(client, TASK, at)
            told = report(0.25 + number / 100, *([scored(round, 20, head=5 + number % 10, local=9)] if index else []))
            ledger.update_accepted(client, UPDATE, told, at + 1 + number / 100)
        lines += ledger.exchange_closed({}, at + 2)
        at += 2
    return [*lines, *ledger.round_closed(round, "completed", "", f"hash{round}", at)]


def test_the_page_of_a_large_run_is_small_and_whole(tmp_path: Path) -> None:
    run = read_run(large_run(tmp_path).path)
    text = run_page(run)
    assert len(text.encode()) < MAX_BYTES
    assert text.count('class="lane"') == 2 * (1 + NUM_CLIENTS)
    last = run.series.accuracy["head"][-1]
    assert (last.round, last.weighted) == (NUM_ROUNDS, run.summary["accuracy_by_rule"]["head"]["last"])
    assert sum(flow.up.elements for flow in run.series.clients.values()) == run.summary["uplink"]["elements"]
