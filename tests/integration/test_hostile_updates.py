"""A client that is let in and sends wrong numbers: refused by name, left out in the end, and of no effect."""

from __future__ import annotations

import numpy as np

from tests.integration.pairs_run import Counted, PairsRun
from tests.integration.plugins.pairs import Sums
from tests.integration.raw_client import RawClient
from tests.integration.served_run import client_id
from wire.encoding import encode, pack
from wire.exit_codes import ExitCode
from wire.messages import Refusal, Task, Update

THIRD = client_id(2)
WIDTH = 8


def hostile_frames(peer: RawClient) -> list[tuple[list[bytes], str]]:
    """Updates of the first exchange that are whole but for one thing, and the words of their refusals."""
    update, one = Update(peer.run, 1, 0, []), np.ones(1, np.uint32)

    def frames(values: np.ndarray, num: np.ndarray = one) -> list[bytes]:
        return [bytes(frame) for frame in encode(update, pack(Sums(values, num).to_payload("f32")))]

    good, huge = np.zeros(WIDTH, np.float32), np.full(WIDTH, 1e30, np.float32)
    header, buffer = frames(good)
    broken = np.array([0, np.nan, *good[2:]], np.float32).tobytes()
    endless = np.array([np.inf, *good[1:]], np.float32).tobytes()
    numbers = buffer[WIDTH * 4 :]
    return [
        ([header, broken + numbers], "field 'sums': expected finite values, got nan at [1]"),
        ([header, endless + numbers], "field 'sums': expected finite values, got inf at [0]"),
        (frames(huge), "field 'sums': expected up to [gate] max_abs = 1e+09, got 1e+30"),
        (frames(good, np.full(1, 2**32 - 1, np.uint32)), "samples that it announced, got 4294967295"),
        (frames(np.zeros(WIDTH + 1, np.float32)), "expected W = 8, got 9"),
        ([header, buffer[:-1]], "bytes"),
        ([b"\xdd\xff\x00\x00\x00", buffer], "header"),
        ([b"\x91" * 10_000, buffer], "header"),
        ([header, buffer, b"x"], "timing"),
        ([header] * 9, "expected one or two frames"),
    ]


def test_an_enrolled_attacker_moves_nothing_and_is_left_out(pairs: PairsRun) -> None:
    most = 7  # six of the updates below are whole messages, and one of them comes twice
    pairs.configure(
        run={"num_rounds": 1},
        data={"num_clients": 3},
        round={"min_clients": 2, "deadline_s": 2.0},
        gate={"max_refusals": most},
    )
    coordinator, clients = pairs.serve_all(0, 1)
    with pairs.peer(coordinator.address, THIRD) as attacker:
        attacker.join(pairs.class_counts(2), feature_dim=WIDTH)
        attacker.expect(Task)
        for frames, words in hostile_frames(attacker):
            attacker.send_frames(frames)
            refusal = attacker.expect(Refusal)
            assert (refusal.code, refusal.permanent) == ("malformed", False)
            assert words in refusal.reason
        attacker.send_frames(hostile_frames(attacker)[0][0])
        attacker.expect(Refusal)
        left_out = attacker.expect(Refusal)
        assert (left_out.code, left_out.permanent) == ("left_out", True)
        attacker.hello()
        assert attacker.expect(Refusal).code == "left_out"
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["global_hash"] == pairs.expected_hashes([Counted([0, 1], [0, 1])])
    assert "Traceback" not in coordinator.said
    assert coordinator.summary["updates"]["refused"] == most
