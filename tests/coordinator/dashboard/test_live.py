"""A run that goes on, read again when its files have changed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("jinja2")

from coordinator.dashboard import live as live_module
from coordinator.dashboard.live import LiveRun, version_of
from coordinator.report.reading import Run, read_run
from coordinator.report.rendering import live_script
from coordinator.status.reading import read_status
from coordinator.status.text import format_status
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import lock_path
from tests.coordinator.report.runs import RecordedRun


def test_the_body_says_what_is_waited_for_and_what_was_told(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.folder.log_path.write_text("   1.0  <b>joined</b>\n")
    recorded.open(3)
    body = asyncio.run(LiveRun(recorded.settle()).body())
    recorded.leave()
    assert "Round 3, exchange 0 (counted from 0): 0 of 2 updates" in body
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


def told_until_left(folder: RunFolder) -> list[str]:
    """Return what is told of a run that changes once before its process leaves it."""

    async def look() -> list[str]:
        live, told = LiveRun(folder), []
        async for what in live.changes():
            told.append(what)
            if len(told) == 2:
                live.left.set()
            else:
                folder.log_path.write_text("more")
        return told

    folder.log_path.write_text("")
    return asyncio.run(look())


def test_changes_are_told_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "CHECK_EVERY_S", 0.001)
    assert told_until_left(RecordedRun(tmp_path).end()) == ["change", "change", "over"]


def test_the_end_of_its_process_changes_a_run(tmp_path: Path) -> None:
    """A kill leaves the files as they are."""
    with subprocess.Popen(["sleep", "60"]) as other:
        folder = RecordedRun(tmp_path).leave()
        lock_path(folder.store_path).write_text(str(other.pid))
        before = version_of(folder)
        assert version_of(folder) == before
        other.kill()
        other.wait()
    assert version_of(folder) != before


def test_a_run_that_was_killed_is_not_told_to_be_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are those of `coordinator status`."""
    monkeypatch.setattr(live_module, "CHECK_EVERY_S", 0.001)
    folder = RecordedRun(tmp_path).leave()
    told = told_until_left(folder)
    assert told[:2] == ["change", "change"]
    assert told[2] in format_status(read_status(folder.path))
    assert told[2] == "no process of this machine has it: it was killed, or runs elsewhere"
    folder.summary_path.write_text("{")
    assert told_until_left(folder)[2].startswith(f"{folder.summary_path}: expected the figures of a run")


def test_the_body_of_a_run_that_was_killed_says_so_and_how_it_goes_on(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.open(3)

    async def look() -> list[str]:
        live = LiveRun(recorded.settle())
        before = await live.body()
        recorded.store.close()
        live.left.set()
        return [before, await live.body()]

    before, after = asyncio.run(look())
    assert "it was killed" not in before
    told = (
        "no process of this machine has it: it was killed, or runs elsewhere; to go on: coordinator loopback --resume"
    )
    assert told in after


def test_of_a_run_whose_process_is_about_to_leave_there_is_no_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "CHECK_EVERY_S", 0.001)
    recorded = RecordedRun(tmp_path)
    assert told_until_left(recorded.settle()) == ["change", "change"]
    recorded.leave()


BROWSER = """
const link = {}, content = {querySelectorAll: () => []};
globalThis.document = {getElementById: (id) => id === "link" ? link : content};
globalThis.EventSource = class { static CLOSED = 2; constructor() { globalThis.source = this; } close() {} };
let answer = {ok: true, text: async () => "content"};
globalThis.fetch = async () => answer;
const settled = () => new Promise((done) => setTimeout(done));
const script = require("fs").readFileSync(0, "utf-8");
(async () => {
  const events = new Function(script + "; return source;")();
  const told = [];
  for (const what of ["change", "over", "it was killed"]) {
    events.onmessage({data: JSON.stringify(what)}); await settled(); told.push(link.textContent);
  }
  events.readyState = 0; events.onerror(); told.push(link.textContent);
  events.readyState = 2; events.onerror(); await settled(); told.push(link.textContent);
  answer = {ok: false, text: async () => "expected ?token=..."};
  events.onerror(); await settled(); told.push(link.textContent);
  console.log(JSON.stringify(told));
})();
"""
"""As much of a browser as the script needs; prints what the page says of its connection."""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_says_over_only_where_it_is_told_so() -> None:
    """A connection that is refused, by its token or as the run cannot be read, is no run that is over."""
    command = [str(shutil.which("node")), "-e", BROWSER]
    printed = subprocess.run(command, input=live_script(), capture_output=True, text=True, check=True, timeout=20)
    assert json.loads(printed.stdout) == [
        *("live", "over", "it was killed", "not connected", "not connected; load the page again"),
        "expected ?token=...",
    ]
