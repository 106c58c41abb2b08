"""What each client of a run does, as its store tells it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec

from coordinator.clients.waiting import Presence
from coordinator.status.client_phases import ClientStatus
from coordinator.status.reading import read_status
from coordinator.status.text import format_status
from tests.coordinator.report.runs import RecordedRun
from wire.encoding import encode
from wire.messages import Ready


class LiveRun(RecordedRun):
    """A run that goes on, and has closed nothing; ann and bob are its cohort."""

    def __init__(self, parent: Path) -> None:
        super().__init__(parent, num_rounds=0)

    def see(self, heard: str = "", ready: str = "", gone: str = "") -> None:
        """Store who is here, who of them is ready, and who was here, a moment ago; each heard 2 s before that."""
        at_s = time.time() - 0.25
        heard_at_s, gone_at_s = (dict.fromkeys(names.split(), at_s - 2) for names in (heard, gone))
        presence = Presence(at_s, "waits", heard_at_s, frozenset(ready.split()), gone_at_s)
        self.put_fact("presence", msgspec.json.encode(presence).decode())

    def clients(self) -> dict[str, ClientStatus]:
        """What the status says of each client."""
        return read_status(self.settle().path).clients

    def phases(self) -> dict[str, str | None]:
        """What each client does."""
        return {client: told.phase for client, told in self.clients().items()}


def test_before_the_first_round_clients_load_and_are_ready(tmp_path: Path) -> None:
    run = LiveRun(tmp_path)
    run.see("ann bob", ready="ann")
    run.store.put_client("cay", bytes(encode(Ready(1, 0, 0, [], 0, 0, 0))[0]))  # was ready before a restart
    assert run.phases() == {"ann": "ready", "bob": "loading", "cay": "absent"}
    run.leave()


def test_in_a_live_first_round_each_client_has_its_phase_round_and_silence(tmp_path: Path) -> None:
    run = LiveRun(tmp_path)
    run.open(1)
    run.see("ann bob cay", ready="ann bob cay")
    run.put_update(1, "ann", b"", b"")
    clients = run.clients()
    assert run.phases() == {"ann": "answered", "bob": "working", "cay": "ready"}
    assert clients["bob"] == ClientStatus("working", silent_s=2.0, in_round=1)
    assert clients["cay"].in_round is None
    lines = [line.split() for line in format_status(read_status(run.folder.path)).splitlines()[-4:]]
    assert lines[0][-3:] == ["phase", "silent", "for"]
    assert lines[1:] == [[name, phase, "2.00", "s"] for name, phase in run.phases().items()]
    run.leave()


def test_who_waits_is_gone_or_has_not_come_back_does_not_work(tmp_path: Path) -> None:
    run = LiveRun(tmp_path)
    run.open(1)
    run.put_fact("waiting", json.dumps({"ann": "the night"}))
    run.see("ann", ready="ann")
    assert run.phases() == {"ann": "waiting", "bob": "absent"}
    run.see("ann", ready="ann", gone="bob")
    assert (run.phases()["bob"], run.clients()["bob"].silent_s) == ("gone", 2.0)
    run.put_update(1, "ann", b"", b"")
    assert run.phases()["ann"] == "answered"
    run.leave()


def test_a_client_that_comes_back_loads_anew_though_it_was_ready_and_asked_before(tmp_path: Path) -> None:
    run = LiveRun(tmp_path)
    run.open(1)
    run.see("ann bob", ready="ann")
    assert run.phases() == {"ann": "working", "bob": "loading"}
    run.leave()


def test_of_a_run_that_nobody_has_no_phase_is_known(tmp_path: Path) -> None:
    run = LiveRun(tmp_path)
    run.open(1)
    run.see("ann bob")
    run.settle()
    clients = read_status(run.leave().path).clients
    assert {name: (told.phase, told.silent_s) for name, told in clients.items()} == {
        "ann": (None, None),
        "bob": (None, None),
    }


def test_one_table_has_what_clients_do_and_their_last_exchange(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path)
    at_s = time.time() - 0.25
    presence = Presence(at_s, "", {"ann": at_s - 2, "cay": at_s}, frozenset({"ann"}), {})
    run.put_fact("presence", msgspec.json.encode(presence).decode())
    lines = format_status(read_status(run.settle().path)).splitlines()
    run.leave()
    words = [line.split() for line in lines if line.startswith(("clients", "  ann", "  bob", "  cay"))]
    table = {name: cells for name, *cells in words}
    assert table["clients"][-8:] == ["silent", "for", "round", "update", "training", "turnaround", "up", "down"]
    assert table["ann"] == ["ready", "2.00", "s", "2", "accepted", "0.12", "s", "1.00", "s", "50", "B", "60", "B"]
    assert table["bob"][:4] == ["absent", "n/a", "2", "missing"]
    assert table["cay"] == ["loading", "0.0", "ms", *["n/a"] * 6]
