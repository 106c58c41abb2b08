"""Run folders for the tests of reports, made as a run leaves them, without a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.config import load
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import RoundRecord, Store, StoredUpdate
from models import checkpoint
from tests.architecture.source import ROOT
from tests.coordinator.accounting import READY, SPEC, Book, report, scored
from tests.coordinator.stores import call, nothing, unexpected

SETTINGS = (
    "method.name=tests.coordinator.accounting:TWO",
    "data.num_clients=2",
    "model.feature_dim=2",
    "run.num_rounds=3",
    "run.seed=7",
)

MEMORY = {f"{kind}_peak_rss_bytes": 40 * 2**20 for kind in ("coordinator", "aggregator", "client")}


class RecordedRun:
    """A run of the method `two` by ann and bob: two rounds are completed, the second of them slower."""

    def __init__(
        self,
        parent: Path,
        *settings: str,
        mode: str = "loopback",
        classes: Sequence[str] = SPEC.classes,
        num_rounds: int = 2,
    ) -> None:
        config = load(None, [f"run.dir={parent}", *SETTINGS, *settings])
        self.folder = RunFolder.create(config, "20260131-235959")
        self.mode = mode
        self.book = Book()
        self.store = Store(self.folder.store_path, call, unexpected)
        self.store.put_meta("mode", mode)
        self.store.put_meta("modules", str(ROOT))
        counts = {name: {"train": ready.class_counts, "test": [1, 1, 1, 1]} for name, ready in READY.items()}
        self.folder.histogram_path.write_text(json.dumps({"classes": list(classes), "clients": counts}))
        if num_rounds:
            self._play()

    def _play(self) -> None:
        first = {"ann": report(0.25, scored(1, 10, head=5, local=6)), "bob": report(0.5, scored(1, 30, head=27))}
        self.round(1, 0.0, first)
        later = {
            "ann": report(0.25, scored(1, 10, anchor=8), scored(2, 10, head=7, local=9)),
            "bob": report(0.5, scored(1, 30, anchor=27), scored(2, 30, head=30)),
        }
        self.round(2, 10.0, later, longer_s=1.0)

    def round(self, round: int, at: float, first: dict[str, Any], longer_s: float = 0.0) -> None:
        """Play and store one round; bob's update of its second exchange is missing."""
        self.book.ledger.round_opened(round, at)
        for index, reports in enumerate((first, {"ann": report(0.125)})):
            before = len(self.book.exchange_lines)
            self.book.exchange(round, index, at + 2 * index, reports)
            self.store.open_exchange(round, index, list(READY), b"", b"")
            lines = self.book.exchange_lines[before:]
            self.store.close_exchange(round, index, None, None, lines, nothing, list(reports))
        self.book.close(round, at + 5 + longer_s)
        record = RoundRecord(round, "completed", global_hash=f"hash{round}", line=self.book.round_lines[-1])
        self.store.close_round(record, ["ann"])

    def fail(self, round: int, at: float) -> None:
        """Play and store a round that fails as bob's update of its first exchange is missing."""
        self.book.ledger.round_opened(round, at)
        self.book.open(round, 0, at, {"ann": report(0.125)})
        before = len(self.book.exchange_lines)
        self.store.open_exchange(round, 0, list(READY), b"", b"")
        self.book.close(round, at + 5, "failed", "1 of 2 updates")
        record = RoundRecord(round, "failed", "1 of 2 updates", line=self.book.round_lines[-1])
        self.store.close_round(record, [], self.book.exchange_lines[before:])

    def put_fact(self, name: str, text: str) -> None:
        """Store a fact of the run."""
        self.store.put_meta(name, text)

    def open(self, round: int, downlink: tuple[bytes, bytes] = (b"", b"")) -> None:
        """Leave a round's first exchange open."""
        self.store.open_exchange(round, 0, list(READY), *downlink)

    def put_update(self, round: int, client: str, header: bytes, buffer: bytes) -> None:
        """Store an update of the open exchange."""
        self.store.put_updates([StoredUpdate(round, 0, client, 10, header, buffer, b"")], nothing)

    def write_prototypes(self, classes: Sequence[int] = (0, 1, 2)) -> None:
        """Write a global state with prototypes."""
        prototypes = np.eye(len(classes), 2, dtype=np.float32)
        arrays: dict[str, np.ndarray] = {"prototypes": prototypes, "classes": np.array(classes, np.uint16)}
        checkpoint.write(self.folder.global_path, arrays)

    def settle(self) -> RunFolder:
        """Wait until all is stored; the run goes on."""
        self.store.position()
        return self.folder

    def end(self) -> RunFolder:
        """Let the store go and write the summary."""
        self.leave()
        summary = self.book.ledger.summary(self.mode, MEMORY, {"numpy": "2"}, {})
        self.folder.write_summary({**summary, "run_id": self.folder.run_id, "outcome": "finished"})
        return self.folder

    def leave(self) -> RunFolder:
        """Let the store go as if the run was killed."""
        self.store.close()
        self.folder.write_metrics([*self.book.exchange_lines, *self.book.round_lines])
        return self.folder
