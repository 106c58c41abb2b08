"""The file of a run's accounts, read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.metrics.tally import Refusals, RoundLine, Traffic, read_line, write_line
from coordinator.metrics.written_lines import all_written_lines, whole_line, written_lines
from models.spec import ConfigError

NONE = Traffic()
LINE = write_line(RoundLine(1, "completed", "", "", 1.0, 0.1, 2, 0, 0, 2, NONE, NONE, [], NONE, Refusals()))


def test_whole_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{LINE}\n{LINE}\n")
    assert list(written_lines(path)) == all_written_lines(path) == [LINE, LINE]
    assert whole_line(LINE.encode()) == read_line(LINE)


@pytest.mark.parametrize("damaged", [b"null", b"", b"\xff\x00{[junk", LINE[:50].encode(), b"[" * 100_000])
def test_a_damaged_line_is_left_out_or_named(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINE.encode() + b"\n" + damaged + b"\n")
    assert list(written_lines(path)) == [LINE, None]
    with pytest.raises(ConfigError, match=r"metrics\.jsonl: expected .*, got a damaged line, number 2"):
        all_written_lines(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.jsonl: expected the accounts of a run, got No such file"):
        all_written_lines(tmp_path / "metrics.jsonl")
