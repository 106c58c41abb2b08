"""The record of a run: what is one in the store, and what a process that goes on finds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from coordinator.aggregator.half import Constant
from coordinator.config import load
from coordinator.display import Display
from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import LinkCounts, StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.round_events import Configure
from coordinator.start import Start
from coordinator.store import pending
from coordinator.store.growing import GrowingFile
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import StoreError
from coordinator.store.stored import StoredPosition, read_position
from models import checkpoint, methods
from models.spec import ConfigError
from tests.coordinator.stores import figures, unexpected
from wire.encoding import Packed, encode, pack
from wire.messages import Ready, Update
from wire.payload import Payload
from wire.timing import Timing

READY = Ready(1, 30, 10, [10, 20], 2, 100, 0)
ORIGIN = Origin("fedproto-0", 3, "a1")


HASH = checkpoint.state_hash({"state": np.array([2.0])})


def packed(value: float) -> Packed:
    return pack(Payload.of_state({"state": np.array([value])}))


START = Start(packed(7.0), frozenset({2, 0}), ORIGIN)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")


def opened(folder: RunFolder, start: Start | None = None) -> RunRecord:
    """The record of a run of one exchange per round, which is new or not."""
    return RunRecord(folder, load(folder.config_path, []), "serve", Path(), Display(io.StringIO(), False), start)


def run(folder: RunFolder, use: Callable[[RunRecord], None], start: Start | None = None) -> None:
    """Use the record on an event loop, and close it."""

    async def on_loop() -> None:
        with closing(opened(folder, start)) as record:
            record.attach(unexpected)
            use(record)

    asyncio.run(on_loop())


def stored(folder: RunFolder) -> StoredPosition:
    """Where the run stands for somebody who looks at the store from outside."""
    with closing(sqlite3.connect(folder.store_path)) as reader:
        return read_position(reader)


def links(up_bytes: int) -> StoredLinks:
    return StoredLinks({"a": LinkCounts(up_bytes, num_connections=1)})


def put_exchange(record: RunRecord, client: str = "a") -> None:
    """Open the first exchange, and accept an update that is not written yet."""
    record.open_exchange(Configure(1, 0, ("a", "b")), packed(0.0), links(100))
    update = Update(1, 1, 0)
    frames = encode(update, packed(1.0))
    record.put_update(update, client, 30, frames, Timing(1, 2, 3, 4), lambda: None)


def test_a_run_that_goes_on_is_held_to_what_it_was_begun_with(folder: RunFolder) -> None:
    opened(folder).close()
    begun = folder.config_path.read_text()
    folder.config_path.write_text(begun.replace("seed = 0", "seed = 4"))
    for _ in range(2):  # the first one has let go of the store
        with pytest.raises(ConfigError, match=r"run\.seed = 4: expected 0"):
            opened(folder)
    folder.config_path.write_text(begun)
    opened(folder).close()


def test_a_store_is_let_go_of_where_the_last_lines_of_the_accounts_cannot_be_written(folder: RunFolder) -> None:
    record = opened(folder)
    with record._metrics:
        record._metrics = GrowingFile(Path("/dev/full"))
    record._metrics.put(["a line"])
    record.write_lines()  # nobody depends on that while the run goes on
    with pytest.raises(OSError, match="No space left"):
        record.close()
    opened(folder).close()


def test_settings_that_were_settled_are_those_to_go_on_with(folder: RunFolder) -> None:
    config = load(folder.config_path, ["simulation.batched=true"])
    run(folder, lambda record: record.write_config(config))
    assert folder.read_config() == config
    opened(folder).close()
    folder.write_config(load(folder.config_path, ["simulation.batched=false"]))
    with pytest.raises(ConfigError, match=r"simulation\.batched = False: expected True"):
        opened(folder)


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_the_last_exchange_and_its_round_are_closed_as_one(folder: RunFolder, status: str) -> None:
    def close_half(record: RunRecord) -> None:
        put_exchange(record)
        record.close_exchange(
            1, 0, packed(2.0) if status == "completed" else None, ['{"kind":"x"}'], links(200), with_round=True
        )

    def close_whole(record: RunRecord) -> None:
        record.close_exchange(1, 0, packed(2.0) if status == "completed" else None, [], links(200), with_round=True)
        record.close_round(status, 1, "", "hash", packed(2.0), ["a"], ["{}"])  # type: ignore[arg-type]

    run(folder, close_half)
    found = stored(folder)
    assert found.open_exchange is not None
    assert (found.next_round, found.latest_state, found.open_exchange.updates) == (1, None, [])
    run(folder, close_whole)
    found = stored(folder)
    assert (found.open_exchange, found.next_round) == (None, 2)
    assert (found.base_round, found.kept) == ((1, {"a": 1}) if status == "completed" else (0, {}))


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_the_kernel_counted_is_stored_with_the_exchange_that_it_is_of(folder: RunFolder, is_whole: bool) -> None:
    """After a kill the exchange is open again, and what its updates cost is counted once more."""

    def close(record: RunRecord) -> None:
        put_exchange(record)
        record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=True)
        if is_whole:
            record.close_round("completed", 1, "", HASH, packed(2.0), ["a"], ["{}"])

    run(folder, close)
    with closing(opened(folder)) as record:
        assert record.standing.links == links(200 if is_whole else 100)


def test_an_exchange_in_the_middle_of_its_round_is_closed_at_once(folder: RunFolder) -> None:
    def close(record: RunRecord) -> None:
        put_exchange(record)
        record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=False)

    run(folder, close)
    found = stored(folder)
    assert (found.open_exchange, found.next_round) == (None, 1)
    assert found.latest_state is not None


def test_an_update_comes_back_with_what_its_client_said_of_its_work(folder: RunFolder) -> None:
    run(folder, put_exchange)
    with closing(opened(folder)) as record:
        (held,) = record.standing.updates
        assert (held.client, held.num_train, held.packed) == ("a", 30, packed(1.0))
        assert (held.report.train_s, held.report.encode_s) == (1e-6, 4e-6)


def test_what_a_run_starts_from_is_stored_before_anything_happens(folder: RunFolder) -> None:
    opened(folder, START).close()
    with closing(opened(folder)) as record:
        assert record.standing.start_state == record.standing.latest_state == packed(7.0)
        assert record.standing.start_classes == frozenset({0, 2})
        assert record.standing.init_from == ORIGIN
        assert record.start_state == packed(7.0)


def test_a_run_in_memory_knows_its_state_too(tmp_path: Path) -> None:
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}", "run.store=memory"]), "20260131-235959")

    def complete_round(record: RunRecord) -> None:
        assert record.start_state == record.standing.latest_state == packed(7.0)
        put_exchange(record)
        record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=True)
        record.close_round("completed", 1, "", "hash", packed(2.0), ["a"], ["{}"])
        assert record.start_state == packed(2.0)

    run(folder, complete_round, START)


def test_constants_are_durable_with_the_mark_that_they_are_all(folder: RunFolder) -> None:
    made = [Constant("masks", "d1", packed(1.0)), Constant("etf", "d2", packed(2.0))]

    async def put() -> None:
        with closing(opened(folder)) as record:
            record.attach(unexpected)
            await record.put_constants(made)
            with closing(sqlite3.connect(folder.store_path)) as reader:
                assert reader.execute("SELECT count(*) FROM constants").fetchone() == (2,)
                assert reader.execute("SELECT count(*) FROM meta WHERE key = 'begun'").fetchone() == (1,)

    asyncio.run(put())
    with closing(opened(folder)) as record:
        assert record.standing.constants == made


def test_an_announcement_is_stored_when_it_is_news(folder: RunFolder) -> None:
    other = Ready(1, 31, 10, [11, 20], 2, 100, 0)

    def announce(record: RunRecord) -> None:
        for ready in (READY, other, READY, READY):
            record.put_ready("a", ready)

    run(folder, announce)
    with closing(opened(folder)) as record:
        assert record.standing.announced == {"a": READY}


def test_messages_that_were_not_delivered_are_counted_over_restarts(folder: RunFolder) -> None:
    run(folder, lambda record: record.put_undelivered({"a": 2}))
    with closing(opened(folder)) as record:
        assert record.standing.undelivered == {"a": 2}


def test_the_metrics_hold_what_became_durable_and_nothing_else(folder: RunFolder) -> None:
    opened(folder).close()
    folder.metrics_path.write_text('{"never": "durable"}\n')
    with closing(opened(folder)) as record:
        assert list(record.lines()) == []
    assert folder.metrics_path.read_text() == ""


def test_the_peaks_of_earlier_processes_count(folder: RunFolder) -> None:
    """The summary of an earlier process is gone while the run goes on."""
    folder.write_summary(figures(memory={"client_peak_rss_bytes": 1 << 40, "trainer_peak_rss_bytes": None}))
    config = load(folder.config_path, [])
    spec = config.spec("run", ["a", "b"])

    def end(record: RunRecord) -> None:
        assert not folder.summary_path.exists()
        record.finish(
            Ledger(spec, methods.find(spec.method)),
            {},
            {"client_peak_rss_bytes": 5, "trainer_peak_rss_bytes": 7},
            "failed",
            "the round was too short",
        )

    run(folder, end)
    assert (folder.read_summary()["outcome"], folder.read_summary()["reason"]) == ("failed", "the round was too short")
    memory = folder.read_summary()["memory"]
    assert (memory["client_peak_rss_bytes"], memory["trainer_peak_rss_bytes"]) == (1 << 40, 7)


def test_a_record_is_closed_once(folder: RunFolder) -> None:
    record = opened(folder)
    record.close()
    record.close()


def test_a_record_that_cannot_be_opened_lets_go_of_its_store(folder: RunFolder) -> None:
    folder.metrics_path.mkdir()
    with pytest.raises(OSError, match=r"metrics\.jsonl"):
        opened(folder)
    folder.metrics_path.rmdir()
    opened(folder).close()


def test_an_update_waits_its_whole_time_however_shortly_after_an_exchange_was_closed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer of updates that their exchange has taken along does not write those of the next one early."""
    monkeypatch.setattr(pending, "FLUSH_AFTER_S", 0.05)

    async def wait_s() -> float:
        loop = asyncio.get_running_loop()
        with closing(opened(folder)) as record:
            record.attach(unexpected)
            put_exchange(record)
            await asyncio.sleep(0.03)
            record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=True)
            record.close_round("completed", 1, "", "hash", packed(2.0), ["a"], ["{}"])
            record.open_exchange(Configure(2, 0, ("a",)), packed(0.0), None)
            frames, durable, put_at = encode(Update(1, 2, 0), packed(1.0)), loop.create_future(), loop.time()
            record.put_update(Update(1, 2, 0), "a", 30, frames, None, lambda: durable.set_result(loop.time()))
            return float(await durable) - put_at

    assert asyncio.run(wait_s()) >= 0.05


def test_a_round_that_ended_is_durable_with_the_opening_of_the_next_or_soon_without_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        with closing(opened(folder)) as record:
            record.attach(unexpected)
            put_exchange(record)
            record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=True)
            record.close_round("completed", 1, "", "hash", packed(2.0), ["a"], ["{}"])
            assert stored(folder).next_round == 1
            await record.open_exchange(Configure(2, 0, ("a",)), packed(0.0), None)
            assert (stored(folder).next_round, stored(folder).open_exchange is not None) == (2, True)
            record.close_exchange(2, 0, packed(3.0), [], links(300), with_round=True)
            record.close_round("completed", 2, "", "hash", packed(3.0), ["a"], ["{}"])
            while stored(folder).next_round == 2:
                await asyncio.sleep(0.005)

    monkeypatch.setattr(pending, "FLUSH_AFTER_S", 0.02)
    asyncio.run(asyncio.wait_for(play(), 20.0))


def test_a_store_in_memory_is_written_now_and_then_however_fast_rounds_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "FLUSH_AFTER_S", 0.02)
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}", "run.store=memory"]), "20260131-235959")

    durable: list[int] = []

    async def play() -> int:
        with closing(opened(folder)) as record:
            record.attach(unexpected)
            for round in range(1, 100):
                assert record.open_exchange(Configure(round, 0, ("a",)), packed(0.0), None).done()
                update = Update(1, round, 0)
                record.put_update(update, "a", 30, encode(update, packed(1.0)), None, lambda: durable.append(1))
                assert len(durable) == round
                record.close_exchange(round, 0, packed(2.0), [], links(200), with_round=True)
                record.close_round("completed", round, "", "hash", packed(2.0), ["a"], ["{}"])
                await asyncio.sleep(0.001)
            return len(record._store.round_records())

    assert asyncio.run(play()) > 0
    assert len(durable) == 99


def test_a_run_that_is_stopped_in_the_midst_of_a_round_leaves_the_state_from_its_start(folder: RunFolder) -> None:
    spec = load(folder.config_path, []).spec("run", ["a", "b"])

    def stop(record: RunRecord) -> None:
        put_exchange(record)
        record.close_exchange(1, 0, packed(2.0), [], links(200), with_round=False)
        record.finish(Ledger(spec, methods.find(spec.method)), {}, {}, "interrupted", "stopped by SIGINT")

    run(folder, stop, START)
    arrays, _ = checkpoint.read(folder.global_path)
    assert arrays["state"].tolist() == [7.0]


def test_who_waits_for_a_store_that_has_failed_before_is_told_at_once(folder: RunFolder) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def main() -> None:
        heard: list[StoreError] = []
        with closing(opened(folder)) as record:
            record.attach(heard.append)
            record._store._writer.write(fail)
            while not heard:
                await asyncio.sleep(0.001)
            for wait in (record.settle, lambda: record.open_exchange(Configure(1, 0, ("a",)), packed(0.0), links(1))):
                with pytest.raises(StoreError, match="I/O error"):
                    await asyncio.wait_for(wait(), 5.0)

    asyncio.run(main())


def test_a_store_that_fails_as_the_run_ends_is_told_by_its_close_as_nobody_hears_of_it_any_more(
    folder: RunFolder,
) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def main() -> None:
        record = opened(folder)
        record.attach(lambda error: None)
        record._store._writer.write(fail)
        with contextlib.suppress(StoreError):
            record._store.facts()  # waits until it has failed, without a look at what the loop is to hear
        with pytest.raises(StoreError, match="I/O error"):
            record.close()

    asyncio.run(main())
