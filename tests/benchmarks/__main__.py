"""Runs the benchmarks that are named, or all of them, and prints what they measured.

    python -m tests.benchmarks [NAME ...] [--out FOLDER] [--full] [--list]

Studies, which compare methods as the papers do, take minutes to hours and run only if they are named; `--full` is for
all of their seeds and samples. The figures also go to FOLDER (by default a temporary one, which is printed) as one JSON
file per benchmark.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.benchmarks import machine
from tests.benchmarks.figure import Skipped, table

BENCHMARKS = (
    "main_job", "startup", "coordination", "overhead", "indices", "memory_flat", "partition", "mnist_split",
    "simulator", "encryption", "flood", "refusals", "live_page", "torch_free", "crowd", "restart", "measuring",
    "standing", "methods",
)  # fmt: skip
"""Each is a module beside this one, with a `run` that takes a folder and returns figures."""

STUDIES: tuple[str, ...] = (
    "fedpa",
    "fedpa_fashion",
    "fedpa_features",
    "fedpa_participation",
    "gfpl",
    "headcal",
    "hgp",
    "refprotofl",
    "refprotofl_paper",
    "tinyproto",
)
"""Likewise, but `run` also takes whether it is to run in full."""


def main() -> int:
    """Return 0 if all benchmarks ran or were skipped for a reason, whatever they measured."""
    args = _arguments()
    if args.list:
        for name in (*BENCHMARKS, *STUDIES):
            print(f"{name:14s}{_module(name).__doc__}")
        return 0
    out = args.out or Path(tempfile.mkdtemp(prefix="protoedge-benchmarks-"))
    facts = machine.facts()
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    outcomes = [_run(name, out, facts, args.full) for name in args.names or BENCHMARKS]
    print(f"\nfigures: {out}")
    return 0 if all(outcomes) else 1


def _run(name: str, out: Path, facts: dict[str, object], full: bool) -> bool:
    folder = out.resolve() / name
    folder.mkdir(parents=True, exist_ok=True)
    print(f"\n{name}", flush=True)
    try:
        figures = _module(name).run(folder, full) if name in STUDIES else _module(name).run(folder)
    except Skipped as reason:
        print(f"skipped: {reason}")
        return True
    except Exception:
        traceback.print_exc()
        return False
    content = {"benchmark": name, "machine": facts, "figures": [figure.as_json() for figure in figures]}
    (out / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    print(table(figures), flush=True)
    return True


def _module(name: str) -> ModuleType:
    return import_module(f"tests.benchmarks.{name}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="Measure the figures of the project."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*BENCHMARKS, *STUDIES)))
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the figures go as JSON")
    parser.add_argument("--full", action="store_true", help="studies: all seeds and samples")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    args = parser.parse_args()
    known = (*BENCHMARKS, *STUDIES)
    if unknown := set(args.names) - set(known):
        parser.error(f"expected benchmarks among {', '.join(known)}, got {', '.join(sorted(unknown))}")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
