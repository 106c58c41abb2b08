"""A run's figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from coordinator.report.reading import Run

if TYPE_CHECKING:
    from prometheus_client import Metric

SIZES = ("payload", "encoded", "wire")
"""The levels at which bytes are counted."""


def exposition(run: Run) -> tuple[bytes, str]:
    """Return the figures as text, and its content type; those that are not known are left out."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(cast("Any", _Figures(run)))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Figures:
    """What a registry collects from."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def collect(self) -> Iterable[Metric]:
        return _metrics(self._run)


def _metrics(run: Run) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    summary = run.summary
    facts = {key: str(summary[key]) for key in ("run_id", "method", "mode", "seed")}
    yield InfoMetricFamily("protoedge_run", "What is run.", {**facts, "outcome": run.outcome})
    counts = {status: summary[f"rounds_{status}"] for status in ("completed", "failed")}
    yield _labelled(CounterMetricFamily("protoedge_rounds", "Closed rounds.", labels=["status"]), counts)
    yield GaugeMetricFamily("protoedge_rounds_planned", "Rounds that the run is to have.", summary["num_rounds"])
    yield GaugeMetricFamily("protoedge_clients", "Clients that have announced themselves.", summary["num_clients"])
    updates = CounterMetricFamily("protoedge_updates", "Updates that came, by what became of them.", labels=["result"])
    yield _labelled(updates, summary["updates"])
    for way in ("uplink", "downlink"):
        sizes = {kind: summary[way][f"{kind}_bytes"] for kind in SIZES}
        text = f"Bytes of all clients, {way}: the payload and encoding of rounds, and all on the wire, by these levels."
        yield _labelled(CounterMetricFamily(f"protoedge_{way}_bytes", text, labels=["level"]), sizes)
    accuracy = {rule: told["last"] for rule, told in summary["accuracy_by_rule"].items()}
    yield _labelled(GaugeMetricFamily("protoedge_accuracy_ratio", "Last accuracy.", labels=["rule"]), accuracy)
    last = run.series.rounds[-1] if run.series.rounds else None
    durations = {"round": last.round_s, "coordination": last.coordination_s} if last else {}
    text = "How long the last round took."
    yield _labelled(GaugeMetricFamily("protoedge_last_round_seconds", text, labels=["part"]), durations)
    memory = {kind.removesuffix("_peak_rss_bytes"): peak for kind, peak in summary["memory"].items()}
    text = "Largest peak of resident memory."
    yield _labelled(GaugeMetricFamily("protoedge_peak_resident_memory_bytes", text, labels=["process"]), memory)
    yield from _metrics_of_clients(summary)


def _metrics_of_clients(summary: Mapping[str, Any]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    links = (summary.get("wire") or {}).get("clients", {})
    for way in ("up", "down"):
        text = f"TCP payload that the kernel counted, {way}, of all of a client's connections."
        counted = {client: link[f"{way}_bytes"] for client, link in links.items()}
        yield _labelled(CounterMetricFamily(f"protoedge_client_{way}_bytes", text, labels=["client"]), counted)
    again = CounterMetricFamily(
        "protoedge_client_retransmits", "TCP segments that were sent to a client again.", labels=["client"]
    )
    yield _labelled(again, {client: link["num_retransmits"] for client, link in links.items()})
    rtt = GaugeMetricFamily("protoedge_client_rtt_seconds", "Smoothed round-trip time.", labels=["client"])
    yield _labelled(rtt, {client: link["rtt_s"] for client, link in links.items()})
    text = "Energy by the client's own sensors, from its tasks' coming until its updates were made."
    energy = {client: told.get("energy_j") for client, told in summary.get("clients", {}).items()}
    yield _labelled(CounterMetricFamily("protoedge_client_energy_joules", text, labels=["client"]), energy)


def _labelled(family: Any, figures: Mapping[str, float | None]) -> Metric:
    """Fill a metric with a sample for each figure that is known."""
    for label, figure in figures.items():
        if figure is not None:
            family.add_metric([label], figure)
    metric: Metric = family
    return metric
