"""`coordinator report RUN_DIR...`, and what every run leaves behind at its end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coordinator.report.comparison import comparison_page
from coordinator.report.exports import to_mlflow, to_tensorboard
from coordinator.report.forms import EXPORTS, PAGE
from coordinator.report.numbers import to_csv, to_json
from coordinator.report.page import run_page
from coordinator.report.reading import Run, read_run
from coordinator.results import Results, read_result
from coordinator.store.run_folder import RunFolder, write_whole
from coordinator.store.schema import in_words, refused
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.log import size_bytes

COMPARISON_NAME = "comparison.html"
"""Where the comparison of several runs is written, seen from where the command is started."""

AUTOMATIC_BYTES = 128 * 2**20
"""Accounts of more than this are not read at the end of a run, which would take seconds."""


def report(paths: Sequence[Path], form: str, output: Path | None) -> ExitCode:
    """Make the page of one run or the comparison of several, or an export of each, and print where it is.

    Numbers and tables are printed themselves, unless a file is named.

    Raises:
        ConfigError: a path has nothing, no run can be read, a package is missing, or the file cannot be written.
    """
    if form == "table":
        return _table(paths, output)
    runs = _readable(paths)
    if form in EXPORTS:
        for run in runs:
            print(MAKERS[form](run))
    elif form != PAGE and output is None:
        print(TEXTS[form](runs), end="")
    else:
        _leave(TEXTS[form](runs), output or _place(runs))
    return ExitCode.FINISHED


def _table(paths: Sequence[Path], output: Path | None) -> ExitCode:
    """Make a line for each run, also for those that cannot be read, unless there is nothing else."""
    results = Results(map(read_result, paths))
    for path, result in zip(paths, results, strict=True):
        if result.fault and (not path.exists() or all(each.fault for each in results)):
            raise ConfigError(result.fault)
    if output is None:
        print(results)
    else:
        _leave(f"{results}\n", output)
    return ExitCode.FINISHED


def _leave(text: str, path: Path) -> None:
    """Write a file and print where it is, unless it is what is printed to."""
    where = _written(path, text)
    with contextlib.suppress(OSError, ValueError):  # a stream without a file, as tests have
        if os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno())):
            return
    print(where)


def _readable(paths: Sequence[Path]) -> list[Run]:
    """Return the runs in these folders; beside others, what is no run or has not begun is left out and told."""
    runs, faults = [], []
    for path in paths:
        try:
            runs.append(read_run(path))
        except ConfigError as error:
            if not path.exists():
                raise
            faults.append(error)
    if not runs:
        raise faults[0]
    for fault in faults:
        print(f"coordinator: left out: {fault}", file=sys.stderr)
    for run in runs:
        for told in run.faults:
            print(f"coordinator: {run.folder.path}: {told}", file=sys.stderr)
    return runs


def leave_behind(folder: RunFolder, forms: Sequence[str]) -> Iterator[str]:
    """Make these forms of a run that is over; yield a line for each that says where it is, or why there is none."""
    run: Run | None = None
    for form in forms:
        what = "report" if form == PAGE else form
        try:
            if size_bytes(folder.metrics_path) > AUTOMATIC_BYTES:
                yield f"{what}: left out as the run is long; coordinator report makes it"
            else:
                run = run or read_run(folder.path)
                yield f"{what}: {MAKERS[form](run)}"
        except Exception as error:  # the run is over, and nothing here is a part of it
            told = in_words(error, folder.path)
            yield f"{what}: {told if isinstance(error, ConfigError | OSError) else f'{type(error).__name__}: {told}'}"


def _page(run: Run) -> str:
    return _written(run.folder.page_path, run_page(run), whole=True)


MAKERS: dict[str, Callable[[Run], str]] = {PAGE: _page, "tensorboard": to_tensorboard, "mlflow": to_mlflow}
"""What makes a form of one run and returns where it is, by form."""


def _pages(runs: Sequence[Run]) -> str:
    return run_page(runs[0]) if len(runs) == 1 else comparison_page(runs)


TEXTS: dict[str, Callable[[Sequence[Run]], str]] = {PAGE: _pages, "json": to_json, "csv": to_csv}
"""What makes the text of a form of several runs, by form."""


def _place(runs: Sequence[Run]) -> Path:
    return runs[0].folder.page_path if len(runs) == 1 else Path(COMPARISON_NAME)


def _written(path: Path, text: str, whole: bool = False) -> str:
    """Write a file and return its path: `whole` or not at all, or into what is there, whose mode and owner stay."""
    try:
        if whole:
            write_whole(path, [text.encode()])
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise refused(f"{path}: expected a file to write to, got {error.strerror}", error) from None
    return str(path)
