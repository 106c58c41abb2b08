"""A store that is not whole is not gone on from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from msgspec.json import encode as to_json

from coordinator.aggregator import commands
from coordinator.config import load
from coordinator.metrics.tally import Refusals, RoundLine, Traffic
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import RoundRecord, Store
from coordinator.store.whole import check_whole
from models.checkpoint import state_hash
from models.spec import ConfigError
from tests.coordinator.stores import nothing, unexpected
from wire.encoding import encode, pack
from wire.limits import PIPE_BYTES
from wire.payload import Payload

STATE = {"state": np.array([2.0])}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")


@pytest.fixture
def store(folder: RunFolder) -> Iterator[Store]:
    with closing(Store(folder.store_path, lambda callback: callback(), unexpected)) as store:
        yield store


def complete(store: Store, global_hash: str = state_hash(STATE)) -> None:
    header, buffer = encode(commands.Begin({}, "", False, 0), pack(Payload.of_state(STATE)), PIPE_BYTES)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.close_exchange(1, 0, bytes(header), bytes(buffer), [], nothing)
    store.close_round(RoundRecord(1, "completed", "", global_hash, 0.0, "{}"), ["a"])


def tell(folder: RunFolder, *rounds: int) -> None:
    """Have these rounds told in `metrics.jsonl`, and a line that a kill has cut off."""
    lines = [to_json(line(number)) + b"\n" for number in rounds]
    folder.metrics_path.write_bytes(b"".join(lines) + b'{"kind":"round","round":9')


def line(number: int) -> RoundLine:
    return RoundLine(
        round=number, status="completed", reason="", global_hash="", round_s=None, coordination_s=None, ok=1, failed=0,
        late=0, num_accepted=1, up=Traffic(), down=Traffic(), new_classes=[], init=Traffic(), refusals=Refusals(),
    )  # fmt: skip


def test_a_store_that_has_all_rounds_and_the_state_of_the_last_is_whole(folder: RunFolder, store: Store) -> None:
    check_whole(folder, store, store.position())
    complete(store)
    for rounds in ((), (1,), (1, 2)):
        tell(folder, *rounds)
        check_whole(folder, store, store.position())


def test_rounds_that_only_the_lines_tell_of_are_missed(folder: RunFolder, store: Store) -> None:
    complete(store)
    tell(folder, 1, 2, 3)
    expected = r"store\.sqlite: expected the 3 rounds that metrics\.jsonl tells of, got 1; put back what is missing"
    with pytest.raises(ConfigError, match=expected):
        check_whole(folder, store, store.position())


def test_a_state_that_has_changed_is_told_by_its_hash(folder: RunFolder, store: Store) -> None:
    complete(store, global_hash="another" * 8)
    found = state_hash(STATE)[:12]
    expected = (
        rf"expected the state with which round 1 ended, hash anotheranoth, got hash {found}: the store is damaged"
    )
    with pytest.raises(ConfigError, match=expected):
        check_whole(folder, store, store.position())
