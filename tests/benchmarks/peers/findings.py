"""What was measured, with what must be known beside it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from tests.benchmarks.peers import plan
from tests.benchmarks.peers.about import about
from tests.benchmarks.peers.claims import claims
from tests.benchmarks.peers.measured import Measured
from tests.benchmarks.peers.rows import COLUMNS, tables
from tests.benchmarks.peers.seen import Seen
from tests.benchmarks.result import Curve, Findings, Plot


def findings(planned: plan.Plan) -> Findings:
    """Return tables, claims and plots of what a plan has measured so far."""
    seen = Seen(planned)
    return Findings(about(), tables(seen), claims(seen), plots=_plots(seen))


def _plots(seen: Seen) -> list[Plot]:
    plots = [
        *(_plot(seen, f"Round, {payload}", "ms", payload, attrgetter("round_ms")) for payload in plan.ENDS),
        *(
            _plot(seen, f"Memory of the server side, {payload}", "MiB", payload, attrgetter("server_mib"))
            for payload in plan.ENDS
        ),
    ]
    return [plot for plot in plots if plot.curves]


def _plot(seen: Seen, title: str, unit: str, payload: str, read: Callable[[Measured], float]) -> Plot:
    curves = []
    for name in COLUMNS:
        runs = ((num, seen.run(name, num, payload)) for num in seen.clients)
        points = [(float(num), read(run)) for num, run in runs if isinstance(run, Measured)]
        curves += [Curve(name, points)] if points else []
    return Plot(title, "clients", unit, curves)
