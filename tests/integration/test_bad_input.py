"""What cannot be right is refused in one clear line with the right exit code, and disturbs nobody else."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sqlite3

import numpy as np

from tests.integration.pairs_run import Counted, PairsRun, counted_in, save_samples
from tests.integration.plugins.pairs import Echoes, Sums
from tests.integration.processes import Process
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode
from wire.messages import Ack, Grant, Offer, Ping, Pong, Refusal, Task, Update

FIRST, SECOND, THIRD = client_id(0), client_id(1), client_id(2)


def the_line(process: Process, code: ExitCode) -> str:
    """Return the last line of a process that ends with this code, and without a traceback."""
    assert process.wait() == code
    assert "Traceback" not in process.said
    return process.said.splitlines()[-1]


# Settings


def test_a_typo_in_a_config_is_named_and_nothing_is_started(pairs: PairsRun) -> None:
    pairs.configure(run={"num_ronds": 5})
    line = the_line(pairs.serve(), ExitCode.BAD_CONFIG)
    assert line == "coordinator: run.toml [run]: unknown key 'num_ronds'; did you mean 'num_rounds'?"
    assert not (pairs.folder / "runs").exists()


def test_a_typo_in_a_client_config_is_named(pairs: PairsRun) -> None:
    line = the_line(pairs.client(0, "127.0.0.1:1", client={"idd": "x"}), ExitCode.BAD_CONFIG)
    assert "unknown key 'idd'; did you mean 'id'?" in line


def test_a_port_in_use_is_named(pairs: PairsRun) -> None:
    first = pairs.serve()
    line = the_line(pairs.serve("--set", f"transport.bind={first.address}", name="second"), ExitCode.BAD_CONFIG)
    assert f"[transport] bind: cannot listen on {first.address}: Address already in use" in line
    assert line.endswith("; nothing has run, so the run folder is removed")
    assert [path.name for path in first.folder.parent.iterdir()] == [first.folder.name]


def test_a_missing_data_file_is_named(pairs: PairsRun) -> None:
    """By the coordinator if it needs the file for its label map, and in loopback before anything is started."""
    missing = pairs.folder / "missing.npz"
    pairs.configure(data={"root": str(missing)})
    assert f"no file {missing}" in the_line(pairs.serve("--set", "data.classes=[]"), ExitCode.BAD_CONFIG)
    line = the_line(pairs.loopback(), ExitCode.BAD_CONFIG)
    assert line.startswith(f"coordinator: [data] no file {missing}")
    assert not list(pairs.folder.glob("runs/*/clients"))


# Clients that do not fit the run


def test_a_client_whose_data_do_not_fit_disturbs_nobody(pairs: PairsRun) -> None:
    pairs.configure(data={"num_clients": 3}, round={"min_available_clients": 2})
    coordinator = pairs.serve()
    save_samples(pairs.folder / "foreign.npz", 20, label=3)
    foreign = {"source": "npz", "root": str(pairs.folder / "foreign.npz")}
    line = the_line(pairs.client(2, coordinator.address, data=foreign), ExitCode.BAD_CONFIG)
    assert "row 0 has label 3, expected an id of the label map 0..2 ['a', 'b', 'c']" in line
    missing = {"source": "npz", "root": str(pairs.folder / "missing.npz")}
    line = the_line(pairs.client(2, coordinator.address, data=missing), ExitCode.BAD_CONFIG)
    assert f"no file {pairs.folder / 'missing.npz'}" in line
    line = the_line(pairs.client(2, coordinator.address, model={"feature_dim": 9}), ExitCode.REFUSED)
    assert f"(feature_dim): the run's feature_dim is 8, {THIRD}'s net has 9" in line
    clients = [pairs.client(index, coordinator.address) for index in range(2)]
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["global_hash"] == pairs.expected_hashes([Counted([0, 1], [0, 1])] * 2)


def test_a_client_of_another_protocol_version_is_refused_for_good(pairs: PairsRun) -> None:
    coordinator = pairs.serve()
    with pairs.peer(coordinator.address) as stranger:
        stranger.hello(major=99)
        refusal = stranger.expect(Refusal)
    assert (refusal.code, refusal.permanent) == ("version", True)
    assert re.fullmatch(r"the coordinator speaks protocol \d+\.\d+, stranger speaks 99\.0", refusal.reason)


# Bytes that are no messages


def test_junk_on_the_port_changes_nothing(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    host, _, port = coordinator.address.rpartition(":")
    pairs.gates.see(FIRST)
    junk = [b"\x01\x00\x06\x00hello", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\xff" * 64, b""]
    for content in junk:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(content)
    with pairs.peer(coordinator.address) as stranger:
        for frames in ([b""], [b"\xc1"], [b"x", b"y", b"z"], [b"\x91\x01", b""], [os.urandom(1000)]):
            stranger.send_frames(frames)
        stranger.hello(major=99)
        stranger.expect(Refusal)
    coordinator.hear(r"turned away \(junk\): stranger sent what is no message: ")
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert "Traceback" not in coordinator.said
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_an_uplink_above_the_limit_is_not_sent(pairs: PairsRun) -> None:
    pairs.configure(
        method={"oversize": THIRD},
        data={"num_clients": 3},
        model={"feature_dim": 200},
        round={"deadline_s": 1.5, "min_clients": 2, "min_available_clients": 3},
        run={"num_rounds": 1},
        transport={"max_message_bytes": 65536},
    )
    coordinator, clients = pairs.serve_all(0, 1, 2)
    line = the_line(clients[2], ExitCode.BAD_CONFIG)
    assert re.search(r"Update: 800\d\d bytes are more than \[transport\] max_message_bytes = 65536", line)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients[:2]] == [ExitCode.FINISHED] * 2
    assert coordinator.said.count(f"{THIRD} joined") == 1
    assert counted_in(coordinator) == [Counted([0, 1, 2], [0, 1])]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(counted_in(coordinator))


def test_what_the_run_itself_cannot_send_ends_it_at_once(pairs: PairsRun) -> None:
    pairs.configure(model={"feature_dim": 20_000}, transport={"max_message_bytes": 65536})
    line = the_line(pairs.serve(), ExitCode.BAD_CONFIG)
    assert re.search(r"Constant: 80\d\d\d bytes are more than \[transport\] max_message_bytes = 65536", line)


def test_a_large_update_makes_room_for_the_next_one_when_it_is_on_disk_and_not_before(pairs: PairsRun) -> None:
    """Five large uplinks, of which four at a time are granted; the first is accepted while the disk takes nothing."""
    wide = 80_000
    pairs.configure(model={"feature_dim": wide}, data={"num_clients": 5}, transport={"heartbeat_s": 30.0})
    coordinator = pairs.serve()
    sums = Sums(np.zeros(wide, np.float32), np.ones(1, np.uint32))
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(pairs.peer(coordinator.address, client_id(index))) for index in range(5)]
        for peer in peers:
            peer.join([1, 0, 0], feature_dim=wide)
        for peer in peers:
            peer.expect(Task)
            peer.send(Offer(peer.run, 1, 0, 4 * wide))
            if peer is not peers[4]:
                peer.expect(Grant)
        first, last = peers[0], peers[4]
        disk = stack.enter_context(contextlib.closing(sqlite3.connect(coordinator.folder / "store.sqlite")))
        disk.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            first.send(Update(first.run, 1, 0, []), sums)
        assert first.expect(Refusal).code == "duplicate"
        last.send(Ping())
        last.expect(Pong)
        assert not [message for message in last.passed if isinstance(message, Grant)]
        disk.rollback()
        last.expect(Grant)
    assert coordinator.stop() == ExitCode.INTERRUPTED


def test_malformed_updates_are_refused_and_give_their_grants_back(pairs: PairsRun) -> None:
    """Of five large uplinks four are granted at a time: those are malformed, and the fifth waits; one is mute."""
    pairs.configure(data={"num_clients": 6}, transport={"heartbeat_s": 30.0})
    coordinator = pairs.serve()
    values, one = np.zeros(8, np.float32), np.ones(1, np.uint32)
    good, bad = Sums(values, one), Echoes(values, one)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(pairs.peer(coordinator.address, client_id(index))) for index in range(6)]
        for peer in peers:
            peer.join([1, 0, 0], feature_dim=8)
        for peer in peers:
            peer.expect(Task)
        for peer in peers[:5]:
            peer.send(Offer(peer.run, 1, 0, 2_000_000))
            if peer is not peers[4]:
                peer.expect(Grant)
        for peer in peers[:4]:
            peer.send(Update(peer.run, 1, 0, []), bad)
            refusal = peer.expect(Refusal)
            assert (refusal.code, refusal.permanent) == ("malformed", False)
        peers[4].expect(Grant)
        peers[4].send(Update(peers[4].run, 1, 0, []), good)
        peers[4].expect(Ack)
    assert coordinator.stop() == ExitCode.INTERRUPTED
    assert coordinator.summary["updates"]["refused"] == 4
