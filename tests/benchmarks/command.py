"""The command of a group of benchmarks: runs those that are named, or all, keeps what they found, and prints it."""

from __future__ import annotations

import argparse
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec

from tests.benchmarks.figure import Skipped
from tests.benchmarks.result import RESULTS, Findings, Group, found_today, shown


def main(group: Group, package: str, names: Sequence[str], on_request: Sequence[str] = ()) -> int:
    """Return 0 if all benchmarks ran or were skipped for a reason, whatever they measured.

    Args:
        group: the part of the page that the results belong to.
        package: where the benchmarks are, each a module whose `run` takes a folder and returns findings or figures.
        names: of the modules.
        on_request: of those that run only when they are named.
    """
    args = _arguments(package, names, on_request)
    if args.list:
        for name in (*names, *on_request):
            print(f"{name:16s}{_title(import_module(f'{package}.{name}'))}")
        return 0
    outcomes = [_run(group, package, name, args.results) for name in args.names or names]
    return 0 if all(outcomes) else 1


def _run(group: Group, package: str, name: str, results: Path) -> bool:
    print(f"\n{name}", flush=True)
    module = import_module(f"{package}.{name}")
    try:
        findings = _findings(module)
    except Skipped as reason:
        print(f"skipped: {reason}")
        return True
    except Exception:
        traceback.print_exc()
        return False
    found_today(group, f"{group}_{name}", _title(module), f"python -m {package} {name}", findings).write(results)
    print(shown(findings), flush=True)
    return True


def _findings(module: ModuleType) -> Findings:
    """Run a benchmark; its docstring says what its findings, or its figures alone, are about."""
    with tempfile.TemporaryDirectory(prefix="protoedge-benchmark-") as folder:
        found = module.run(Path(folder))
    findings = found if isinstance(found, Findings) else Findings(figures=found)
    return msgspec.structs.replace(findings, about=[*_paragraphs(module)[1:], *findings.about])


def _title(module: ModuleType) -> str:
    return _paragraphs(module)[0].rstrip(".")


def _paragraphs(module: ModuleType) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (module.__doc__ or "").split("\n\n")]


def _arguments(package: str, names: Sequence[str], on_request: Sequence[str]) -> argparse.Namespace:
    known = ", ".join((*names, *on_request))
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description="Measure, keep and print figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=known)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where they are kept as JSON")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    args = parser.parse_args()
    if unknown := set(args.names) - {*names, *on_request}:
        parser.error(f"expected benchmarks among {known}, got {', '.join(sorted(unknown))}")
    return args
