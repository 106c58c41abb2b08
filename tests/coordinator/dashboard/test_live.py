"""A run that goes on, read again when its files have changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("jinja2")

from coordinator.dashboard import live as live_module
from coordinator.dashboard.live import LiveRun
from coordinator.report.reading import Run, read_run
from coordinator.store.run_folder import RunFolder
from tests.coordinator.report.runs import RecordedRun


def test_the_body_says_what_is_waited_for_and_what_was_told(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.folder.log_path.write_text("   1.0  <b>joined</b>\n")
    recorded.open(3)
    body = asyncio.run(LiveRun(recorded.settle()).body())
    recorded.leave()
    assert "Round 3, exchange 0: 0 of 2 updates" in body
    assert "1.0  &lt;b&gt;joined&lt;/b&gt;" in body
    assert "<html" not in body


def test_a_run_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RecordedRun(tmp_path)
    reads: list[Path] = []

    def counted(path: Path) -> Run:
        reads.append(path)
        return read_run(path)

    monkeypatch.setattr("coordinator.dashboard.live.read_run", counted)

    async def look() -> list[str]:
        live = LiveRun(recorded.settle())
        await asyncio.gather(*(live.body() for _ in range(5)))
        outcomes = [(await live.run()).outcome]
        recorded.end()
        return [*outcomes, (await live.run()).outcome]

    assert asyncio.run(look()) == ["running", "finished"]
    assert len(reads) == 2


def test_changes_are_told_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "CHECK_EVERY_S", 0.001)
    folder = RunFolder(tmp_path)

    async def look() -> list[str]:
        live, told = LiveRun(folder), []
        async for what in live.changes():
            told.append(what)
            if len(told) == 2:
                live.over.set()
            else:
                folder.log_path.write_text("more")
        return told

    folder.log_path.write_text("")
    assert asyncio.run(look()) == ["change", "change", "over"]
