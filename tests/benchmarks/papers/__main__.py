"""Repeats a paper's table, and keeps what came out in `tests/benchmarks/results/`.

    python -m tests.benchmarks.papers [TABLE ...] [--scale cpu|gpu] [--rounds N] [--out FOLDER] [--list] [--settings]

Without a table it lists them. Runs are kept in FOLDER (by default `runs/papers`) and not made again there, so a table
that was interrupted goes on where it was. With `--settings` it prints what each row is run by, after the data files are
written to FOLDER, for `coordinator simulate`. With `--rounds` each row has one seed and so few rounds: that shows if a
table can be made here, and no result is kept.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.figure import Skipped
from tests.benchmarks.papers import findings, tables
from tests.benchmarks.papers.study import Runs, Scale
from tests.benchmarks.result import read_all, shown

INTERRUPTED = 130
A_TRY = "This shows that it works: one seed and few rounds say nothing of the paper, and are no result."


def main() -> int:
    """Return 0 if all tables were made or skipped for a reason, whatever came out, and 130 if it was interrupted."""
    args = _arguments()
    try:
        _list(args.tables or tables.NAMES) if args.list or not args.tables else _go(args)
        print(end="", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    return 0


def _go(args: argparse.Namespace) -> None:
    runs = Runs(args.out.resolve())
    for name in args.tables:
        print(f"\n{tables.title(name)}", flush=True)
        try:
            _print_settings(name, args.scale, runs) if args.settings else _make(name, args.scale, args.rounds, runs)
        except Skipped as reason:
            print(f"skipped: {reason}")


def _make(name: str, scale: Scale, num_rounds: int | None, runs: Runs) -> None:
    if scale == "gpu":
        _require_cuda()
    table = tables.find(name, scale)
    if num_rounds is not None:
        tried = findings.measured(name, scale, tables.title(name), table.tried(num_rounds), runs).findings
        print(f"\n{shown(tried)}\n\n{A_TRY}".replace("\n\n\n", "\n"), flush=True)
        return
    result = findings.measured(name, scale, tables.title(name), table, runs)
    print(f"\n{shown(result.findings)}", flush=True)
    result.write()


def _require_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise Skipped("torch sees no GPU here, which scale gpu needs")


def _print_settings(name: str, scale: Scale, runs: Runs) -> None:
    for federation in tables.find(name, scale).federations:
        federation.samples.write(runs.folder)
        for row in federation.rows:
            words = [f"--set {shlex.quote(setting)}" for setting in federation.settings_of(row, 0, runs.folder)]
            print(f"\n# {federation.title}: {row.name}; run.seed is below {federation.num_seeds}")
            print(f"coordinator simulate {' '.join(words)}")


def _list(names: Sequence[str]) -> None:
    """Print each table's name, what it is, and how long its runs took where they are kept."""
    results = {result.name: result for result in read_all()}
    for name in names:
        took = f"{results[name].machine[findings.TOOK]} on a CPU" if name in results else "no result yet"
        print(f"{name:20s}{tables.title(name)} ({took})")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.papers", description="Repeat a paper's table.")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(tables.NAMES))
    parser.add_argument("--scale", choices=("cpu", "gpu"), default="cpu", help="a stated smaller one, or the paper's")
    parser.add_argument("--rounds", type=int, metavar="N", help="try it with so few, and keep no result")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), metavar="FOLDER", help="where runs are kept")
    parser.add_argument("--list", action="store_true", help="list the tables")
    parser.add_argument("--settings", action="store_true", help="print what each row is run by")
    args = parser.parse_args()
    if unknown := set(args.tables) - set(tables.NAMES):
        parser.error(f"expected tables among {', '.join(tables.NAMES)}, got {', '.join(sorted(unknown))}")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
