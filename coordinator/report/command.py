"""`coordinator report RUN_DIR...`, and the page that every run leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coordinator.report.reading import Run, read_run
from coordinator.run_folder import RunFolder
from models.spec import ConfigError
from wire.exit_codes import ExitCode

COMPARISON_NAME = "comparison.html"
"""Where the comparison of several runs is written, seen from where the command is started."""

AUTOMATIC_BYTES = 128 * 2**20
"""Accounts of more than this are not read at the end of a run, which would take seconds."""


def report(paths: Sequence[Path], form: str, output: Path | None) -> ExitCode:
    """Write the page of one run or the comparison of several and print where it is; or print the numbers.

    Raises:
        ConfigError: a run cannot be read, a package is missing, or the file cannot be written.
    """
    runs = [read_run(path) for path in paths]
    text = _content(runs, form)
    if form != "html" and output is None:
        print(text, end="")
        return ExitCode.FINISHED
    where = output or (runs[0].folder.page_path if len(runs) == 1 else Path(COMPARISON_NAME))
    _write(where, text)
    print(where)
    return ExitCode.FINISHED


def write_page(folder: RunFolder) -> str:
    """Write the page of a run that is over, and return one line that says where it is or why there is none."""
    try:
        if folder.metrics_path.stat().st_size > AUTOMATIC_BYTES:
            return f"report: left out as the run is long; coordinator report {folder.path} makes it"
        _write(folder.page_path, _content([read_run(folder.path)], "html"))
    except Exception as error:  # the run is over, and its page is no part of it
        return str(error) if isinstance(error, ConfigError) else f"report: {type(error).__name__}: {error}"
    return f"report: {folder.page_path}"


def _content(runs: Sequence[Run], form: str) -> str:
    if form != "html":
        from coordinator.report.numbers import to_csv, to_json

        return to_json(runs) if form == "json" else to_csv(runs)
    if len(runs) == 1:
        from coordinator.report.page import run_page

        return run_page(runs[0])
    from coordinator.report.comparison import comparison_page

    return comparison_page(runs)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"report: {path}: expected a file to write to, got {error.strerror}") from None
