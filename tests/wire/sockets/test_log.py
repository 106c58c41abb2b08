"""What a process says for people, and how the end of it is read again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from wire.sockets.log import last_lines, say, size_bytes


def test_the_last_lines_of_a_long_log_are_read_and_none_where_there_is_none(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert last_lines(log, 3) == []
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert last_lines(log, 3) == ["line 9997", "line 9998", "line 9999"]


def test_only_what_was_written_from_some_moment_on_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert size_bytes(log) == 0
    log.write_text("yesterday\n")
    before = size_bytes(log)
    assert last_lines(log, 3, before) == []
    with log.open("a") as file:
        file.write("today\n")
    assert last_lines(log, 3, before) == ["today"]
    log.write_text("")  # by somebody who wanted the space
    assert last_lines(log, 3, before) == []


def test_a_line_is_said_at_once_and_a_full_disk_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError("No space left on device")

    monkeypatch.setattr("sys.stderr", said := Full())
    say("listening")
    assert said.getvalue() == "listening\n"
