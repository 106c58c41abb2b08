"""What a run tells people as it goes: lines, a progress bar under them on a terminal, and the same lines in a file.

Output that fails (a closed pipe, a full disk) is given up silently: a run never ends because nobody watches it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from coordinator.metrics.tally import RoundView
from coordinator.units import show_accuracy, show_bytes, show_seconds
from wire.sockets.outlet import Outlet

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Display:
    """Lines and progress on one stream; no method ever raises because of the output."""

    def __init__(
        self,
        stream: TextIO,
        interactive: bool | None = None,
        log_path: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to tell.

        Args:
            stream: where lines go.
            interactive: whether to draw a progress bar; by default where the stream is a terminal. Without `rich`
                there is none.
            log_path: a file that every line is appended to, behind the seconds since now.
            clock: the time in seconds.
        """
        self._outlet = Outlet(stream)
        self._clock = clock
        self._began_at = clock()
        self._log: Outlet | None = None
        self._bar: _Bar | None = None
        if log_path is not None:
            self._open_log(log_path)
        if self._outlet.isatty() if interactive is None else interactive:
            with contextlib.suppress(Exception):
                self._bar = _Bar(self._outlet, clock)

    def note(self, text: str) -> None:
        """Tell one thing; it may have several lines."""
        for line in text.splitlines() or [""]:
            self._say(_printable(line))

    def log(self, text: str) -> None:
        """Write lines to the file alone."""
        for line in text.splitlines():
            self._write_down(_printable(line))

    def round_closed(self, view: RoundView) -> None:
        """Tell how a round ended."""
        self.note(round_line(view))
        self._draw(lambda bar: bar.round_closed(view.round, view.num_rounds))

    def progress(self, round: int, exchange: int, answered: int, total: int) -> None:
        """Show how many of the cohort have answered; only a progress bar does."""
        self._draw(lambda bar: bar.progress(round, exchange, answered, total))

    def close(self) -> None:
        """Take the progress bar away and close the file; the stream stays open."""
        self._draw(lambda bar: bar.close())
        self._bar = None
        if self._log is not None:
            self._log.close()

    def _open_log(self, path: Path) -> None:
        try:
            self._log = Outlet(path.open("a", encoding="utf-8", buffering=1))
        except OSError as error:
            self.note(f"no log file: {path}: {error.strerror}")

    def _say(self, line: str) -> None:
        self._write_down(line)
        if self._bar is None or not self._draw(lambda bar: bar.write(line)):
            self._outlet.write(f"{line}\n")
            self._outlet.flush()

    def _write_down(self, line: str) -> None:
        if self._log is not None:
            self._log.write(f"{self._clock() - self._began_at:10.3f}  {line}\n")

    def _draw(self, draw: Callable[[_Bar], None]) -> bool:
        """Draw on the bar, if there is one, and say whether that worked; a bar that fails is drawn no more."""
        if self._bar is None:
            return False
        try:
            draw(self._bar)
        except Exception:
            self._bar = None
        return self._bar is not None


def round_line(view: RoundView) -> str:
    """Return a closed round in one line."""
    head = f"[ROUND {view.round}/{view.num_rounds}] ok={view.ok} failed={view.failed} late={view.late}"
    seconds = "n/a" if view.seconds is None else show_seconds(view.seconds)
    accuracies = [_accuracy(view, rule) for rule in view.accuracy]
    figures = [f"up {show_bytes(view.up_bytes)}", f"down {show_bytes(view.down_bytes)}", *accuracies]
    if view.status == "failed":
        figures.append(f"FAILED: {view.reason}")
    return "  ".join([f"{head} {seconds}", *figures])


def _accuracy(view: RoundView, rule: str) -> str:
    told, tested = f"{rule} {show_accuracy(view.accuracy[rule])}", view.accuracy_round[rule]
    return told if tested == view.round else f"{told} (round {tested})"


class _Bar:
    """A progress bar of rounds, drawn with `rich` when something happens and not by a thread of its own."""

    def __init__(self, outlet: Outlet, clock: Callable[[], float]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._clock = clock
        self._began_at = clock()
        self._num_closed = 0
        self._progress: Progress = Progress(
            TextColumn("rounds"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=Console(file=cast(TextIO, outlet), force_terminal=True, highlight=False),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task: TaskID = self._progress.add_task("", total=None, left="")
        self._progress.start()

    def write(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, markup=False, emoji=False, soft_wrap=True)

    def round_closed(self, round: int, num_rounds: int) -> None:
        """Move on, and say how long the other rounds should take."""
        self._num_closed += 1
        left_s = (self._clock() - self._began_at) / self._num_closed * (num_rounds - round)
        left = f"about {show_seconds(left_s)} left" if round < num_rounds else ""
        self._progress.update(self._task, completed=round, total=num_rounds, left=left, description="", refresh=True)

    def progress(self, round: int, exchange: int, answered: int, total: int) -> None:
        """Say where the open exchange is."""
        text = f"round {round}, exchange {exchange}: {answered} of {total} updates"
        self._progress.update(self._task, description=text, refresh=True)

    def close(self) -> None:
        """Take it off the screen."""
        self._progress.stop()


def _printable(line: str) -> str:
    """Return a line in which nothing moves the cursor or cannot be encoded."""
    if line.isprintable():
        return line
    return "".join(
        letter if letter.isprintable() or letter == "\t" else letter.encode("unicode_escape").decode()
        for letter in line
    )
