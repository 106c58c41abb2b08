"""Measures this runtime beside Flower's SuperLink and Flower's deprecated gRPC server, on this machine.

    python -m tests.benchmarks.peers [--out FOLDER] [--quick] [--as-is]
                                     [--clients N ...] [--payloads NAME ...] [--rounds N] [--parts PART ...]

What is measured is kept in FOLDER; with the same folder a run goes on with what is missing. Unless only some
of it is named, results/peers.json is written in the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.peers import plan
from tests.benchmarks.peers.findings import findings
from tests.benchmarks.peers.notebook import Notebook
from tests.benchmarks.peers.payloads import PAYLOADS
from tests.benchmarks.result import found_today, shown


def main() -> int:
    """Return 0 when all is measured, whatever was found."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that all processes are ended
    args = _arguments()
    is_full = not args.quick and (args.clients, args.payloads, args.rounds, args.parts) == (None,) * 4
    out = args.out or Path(tempfile.mkdtemp(prefix="protoedge-peers-"))
    planned = _plan(args, out.resolve())
    if not args.as_is:
        planned.measure()
    found = findings(planned)
    print(f"\n{shown(found)}\n\nkept in {out}")
    if is_full:
        found_today("peers", "peers", "This runtime and Flower's", "make bench-peers", found).write()
    return 0


def _plan(args: argparse.Namespace, out: Path) -> plan.Plan:
    clients, payloads, num_rounds = args.clients or plan.CLIENTS, args.payloads or tuple(PAYLOADS), args.rounds
    if args.quick:
        clients, payloads, num_rounds = (2,), (plan.SMALLEST,), 5
    return plan.Plan(Notebook(out), clients, payloads, num_rounds, args.parts or plan.PARTS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.peers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--clients", type=int, nargs="+", metavar="N", help=f"of {plan.CLIENTS}")
    parser.add_argument("--payloads", nargs="+", choices=list(PAYLOADS), metavar="NAME", help=", ".join(PAYLOADS))
    parser.add_argument("--parts", nargs="+", choices=plan.PARTS, metavar="PART", help=", ".join(plan.PARTS))
    parser.add_argument("--rounds", type=int, metavar="N", help="of each run")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where what is measured is kept")
    parser.add_argument("--as-is", action="store_true", help="measure nothing more than what FOLDER has")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, to see that all of it works")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
