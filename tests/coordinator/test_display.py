"""What a run tells people, on streams that work and on streams that do not."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.display import Display, round_line
from coordinator.metrics.tally import RoundView

VIEW = RoundView(
    round=3,
    num_rounds=10,
    status="completed",
    reason="",
    ok=4,
    failed=0,
    late=0,
    seconds=0.84,
    up_bytes=8397,
    down_bytes=8294,
    accuracy={"head": 0.9312, "local_prototype": 0.925},
    accuracy_round={"head": 3, "local_prototype": 3},
)

LINE = "[ROUND 3/10] ok=4 failed=0 late=0 0.84 s  up 8.2 KiB  down 8.1 KiB  head 0.931  local_prototype 0.925"


def tell_all(display: Display) -> None:
    """Use everything that a display has."""
    display.note("waiting for clients 1/2")
    display.progress(3, 0, 1, 4)
    display.round_closed(VIEW)
    display.note("client Žofie-中文-\udc80 [bold]left[/bold]")
    display.close()
    display.note("the end")
    display.close()


def test_a_round_in_one_line() -> None:
    assert round_line(VIEW) == LINE


def test_an_accuracy_of_an_earlier_round_names_it() -> None:
    accuracy = {**VIEW.accuracy, "global_head": 0.875}
    view = replace(VIEW, accuracy=accuracy, accuracy_round={**VIEW.accuracy_round, "global_head": 2})
    assert round_line(view) == f"{LINE}  global_head 0.875 (round 2)"


def test_a_failed_round_says_why() -> None:
    none: Mapping[str, float] = {}
    view = replace(VIEW, status="failed", reason="1 of 2 updates (min_clients)", seconds=None, accuracy=none)
    assert round_line(view) == (
        "[ROUND 3/10] ok=4 failed=0 late=0 n/a  up 8.2 KiB  down 8.1 KiB  FAILED: 1 of 2 updates (min_clients)"
    )


def test_plain_lines() -> None:
    stream = io.StringIO()
    tell_all(Display(stream))
    assert stream.getvalue().splitlines() == [
        "waiting for clients 1/2",
        LINE,
        "client Žofie-中文-\\udc80 [bold]left[/bold]",
        "the end",
    ]


def test_a_progress_bar_stands_under_the_lines() -> None:
    pytest.importorskip("rich")
    times = iter(range(100))
    stream = io.StringIO()
    display = Display(stream, interactive=True, clock=lambda: float(next(times)))
    display.note("[bold]waiting[/bold] for 'clients' 1/2 :smile:")
    display.progress(3, 0, 1, 4)
    display.round_closed(VIEW)
    display.close()
    told = stream.getvalue()
    assert "[bold]waiting[/bold] for 'clients' 1/2 :smile:\n" in told
    assert LINE in told
    assert "3/10" in told
    assert "1 of 4 updates" in told
    assert "about 7.00 s left" in told


def test_a_terminal_gets_a_progress_bar_unasked() -> None:
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    display = Display(terminal)
    display.progress(3, 0, 1, 4)
    display.close()
    assert "1 of 4 updates" in terminal.getvalue()


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    stream = io.StringIO()
    tell_all(Display(stream, interactive=True))
    assert stream.getvalue().splitlines()[:2] == ["waiting for clients 1/2", LINE]


def test_a_note_cannot_move_the_cursor() -> None:
    stream = io.StringIO()
    Display(stream).note("a\x1b[2Jb\rc\nd\te")
    assert stream.getvalue() == "a\\x1b[2Jb\nc\nd\te\n"


def test_letters_that_the_stream_lacks_are_written_out() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    tell_all(Display(stream))
    assert b"client \\u017dofie-\\u4e2d\\u6587-\\udc80 [bold]left[/bold]\n" in buffer.getvalue()


class Broken(io.StringIO):
    """A stream that fails in one way or another."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def isatty(self) -> bool:
        raise self.error


@pytest.mark.parametrize("interactive", [None, False, True])
@pytest.mark.parametrize(
    "error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space"), ValueError("closed"), LookupError("codec")]
)
def test_a_stream_that_fails_is_given_up(error: Exception, interactive: bool | None, tmp_path: Path) -> None:
    log_path = tmp_path / "log.txt"
    display = Display(Broken(error), interactive, log_path)
    display.note("one")
    display.round_closed(VIEW)
    display.progress(3, 0, 2, 4)
    display.note("two")
    display.close()
    told = [line.lstrip().split("  ", 1)[1] for line in log_path.read_text().splitlines()]
    assert told == ["one", LINE, "two"]


@pytest.mark.parametrize("interactive", [None, False, True])
def test_a_closed_stream_is_given_up(interactive: bool | None) -> None:
    stream = io.StringIO()
    stream.close()
    tell_all(Display(stream, interactive))
    assert stream.closed


def test_a_reader_that_leaves_changes_no_exit_code() -> None:
    script = (
        "import sys, time\n"
        "from coordinator.display import Display\n"
        "display = Display(sys.stdout)\n"
        "sys.stdin.read()\n"
        "for number in range(1000): display.note('x' * 100)\n"
        "display.close()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, b"")


def test_the_log_has_every_line_and_when(tmp_path: Path) -> None:
    log_path = tmp_path / "log.txt"
    log_path.write_text("from before\n")
    times = iter([100.0, 100.5, 161.25])
    display = Display(io.StringIO(), log_path=log_path, clock=lambda: next(times))
    display.note("first\udc80")
    display.round_closed(VIEW)
    display.close()
    assert log_path.read_text().splitlines() == [
        "from before",
        "     0.500  first\\udc80",
        f"    61.250  {LINE}",
    ]


def test_a_log_that_cannot_be_opened_is_said_once(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = Display(stream, log_path=tmp_path / "missing" / "log.txt")
    display.note("one")
    assert stream.getvalue().startswith("no log file: ")
    assert stream.getvalue().endswith("\none\n")
