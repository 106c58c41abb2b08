"""Who may take part: both ends say why somebody may not, a list that changes counts at once, and nothing leaks."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

from coordinator.clients import keys
from coordinator.clients.enrolment import Entry, read_entries, write_entries
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Process
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode
from wire.sockets.keys import make_pair

FIRST, SECOND = client_id(0), client_id(1)

EXPLAINED_WITHIN_S = 10.0


def refused(process: Process, *words: str) -> None:
    """See a client end as refused, for one reason that it gives in its last line."""
    assert process.wait() == ExitCode.REFUSED, process.said
    line = process.said.splitlines()[-1]
    assert all(word in line for word in words), line


def see_no_secret(folder: Path) -> None:
    """See that secret keys are in no file but those that are for them, which nobody else may read."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    kept = {path: content.strip() for path, content in found.items() if path.suffix == ".secret"}
    assert len(kept) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    for secret in kept.values():
        holders = [
            path for path, content in found.items() if secret in content or bytes.fromhex(secret.decode()) in content
        ]
        assert all(path in kept for path in holders), holders


def test_both_ends_say_why_a_client_is_not_let_in(pairs: PairsRun) -> None:
    path = pairs.keyring.folder / keys.CLIENTS_FILE
    entries = read_entries(path)
    entries[client_id(2)] = Entry(entries[client_id(2)].public_key, revoked=True)
    entries[client_id(3)] = Entry(entries[client_id(3)].public_key, expires="2001-01-31")
    del entries[client_id(4)]
    write_entries(path, entries)
    coordinator = pairs.serve()
    address = coordinator.address
    others_key = pairs.keyring.of_client(FIRST)["client"]
    strangers = [pairs.client(index, address) for index in (2, 3, 4)]
    another = pairs.client(5, address, coordinator={"public_key": make_pair().public})
    plaintext = pairs.client(6, address, coordinator={"security": "none"})
    impostor = pairs.client(7, address, client=others_key)
    for stranger in strangers:
        refused(stranger, f"refused by the coordinator at {address}", "not enrolled there, was revoked or has expired")
    refused(another, "broken off 3 times", "the secret key to [coordinator] public_key")
    refused(plaintext, f"refused by the coordinator at {address}: ", "connections")
    refused(impostor, "(key)", f"the key is that of {FIRST}, the client says that it is {client_id(7)}")
    assert coordinator.stop() == ExitCode.INTERRUPTED
    for text in ("the key of client-02 was revoked (from 127.0.0.1)", "the key of client-03 has expired (2001-01-31)"):
        assert text in coordinator.said
    status = pairs.processes.coordinator("status", coordinator.folder, "--format", "json", name="status")
    assert status.wait() == ExitCode.FINISHED
    counts = json.loads("\n".join(status.printed))["turned_away"]
    expected = {"revoked": 1, "expired": 1, "not_enrolled": 1, "server_key": 3, "key": 1}
    assert {kind: counts.get(kind) for kind in expected} == expected, counts
    assert counts.get("plaintext", 0) + counts.get("unfinished", 0) >= 1, counts  # by which end gives up first
    see_no_secret(pairs.folder)


def test_a_revoked_client_leaves_and_one_that_is_enrolled_anew_comes_back(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, (first, second) = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    keys.revoke(pairs.keyring.folder, FIRST)
    began = time.monotonic()
    refused(first, "(key)", f"the key of {FIRST} was revoked")
    assert time.monotonic() - began < EXPLAINED_WITHIN_S
    coordinator.hear(f"{FIRST} is gone: the key of {FIRST} was revoked")
    keys.enroll(pairs.keyring.folder, FIRST, pairs.keyring.pairs[FIRST].public, "", 0.0)
    pairs.gates.open(FIRST)
    again = pairs.client(0, coordinator.address)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [again.wait(), second.wait()] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    see_no_secret(pairs.folder)
