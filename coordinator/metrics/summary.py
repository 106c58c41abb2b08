"""`summary.json`: a run's figures in their stable form. An unknown figure is null, and `null_reasons` says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from coordinator.metrics.accounts import RoundAccount
from coordinator.metrics.accuracy import Accuracies
from coordinator.metrics.byte_prediction import classes_held
from coordinator.metrics.durations import MeanDurations
from coordinator.metrics.footprint import Footprints
from coordinator.metrics.links import LinkCounts
from coordinator.metrics.origin import Origin
from coordinator.metrics.privacy import EXTRA, privacy_summary
from coordinator.metrics.tally import Cost, Refusals, RoundLine, Traffic
from coordinator.metrics.task_scores import TaskScores
from coordinator.metrics.wire_bytes import SOURCES, wire_source, wire_summary, wire_total
from coordinator.simulation.simulated_time import simulated_times
from models.methods.api import Method
from models.spec import RunSpec
from wire.messages import Ready

PEAKS = ("coordinator", "aggregator", "client", "trainer")
"""The kinds of process whose peak resident memory a summary holds."""

NO_ENERGY = "a simulation measures no energy"

NO_TRAVEL = "nothing travels in a simulation"

TAKES_TURNS = "clients take turns in a simulation"

NOT_APART = "a simulation measures no client apart"


@dataclass(frozen=True)
class Totals:
    """What a run's accounts have come to.

    `rounds` are the closed ones, `base` the last completed one, and `init_from` says where its first state comes from.
    """

    rounds: Sequence[RoundLine]
    up: Traffic
    down: Traffic
    num_accepted: int
    evaluation: RoundAccount
    init: Traffic
    refusals: Refusals
    clients: Sequence[str]
    announced: Mapping[str, Ready]
    accuracies: Accuracies
    tasks: TaskScores
    links: Mapping[str, LinkCounts]
    durations: MeanDurations
    footprints: Footprints
    num_left_out: Mapping[str, int]
    base: int
    init_from: Origin | None
    num_releases: Mapping[str, int]

    @property
    def completed(self) -> list[RoundLine]:
        """The completed rounds."""
        return [line for line in self.rounds if line.status == "completed"]


def make_summary(
    spec: RunSpec,
    method: Method,
    totals: Totals,
    mode: str,
    memory: Mapping[str, int | None],
    versions: Mapping[str, str],
    reasons: Mapping[str, str],
) -> dict[str, Any]:
    """Return the summary; `reasons` by dotted path say why a figure is null, where the caller knows better."""
    rule = method.headline_rule(spec.evaluation.rule)
    completed = totals.completed
    tasks = totals.tasks.summary({line.round for line in completed})
    wire: Any = _wire(totals) if mode != "simulate" else None
    simulated = simulated_times(totals.rounds, _accuracy(rule, totals)["best_round"])
    summary: dict[str, Any] = {
        "run_id": spec.run_id,
        "method": spec.method,
        "mode": mode,
        "seed": spec.seed,
        "num_rounds": spec.num_rounds,
        "rounds_completed": len(completed),
        "rounds_failed": len(totals.rounds) - len(completed),
        "num_clients": len(totals.clients),
        "accuracy": _headline(rule, totals),
        "accuracy_by_rule": {rule: _accuracy(rule, totals) for rule in method.rules},
        **({"tasks": tasks} if tasks else {}),
        **({"simulated": simulated} if simulated else {}),
        "uplink": _traffic(totals.up, wire and wire_total(wire, "uplink")),
        "downlink": _traffic(totals.down, wire and wire_total(wire, "downlink")),
        "init": {
            key: figure
            for key, figure in _traffic(totals.init, wire and totals.init.wire_bytes).items()
            if key in Cost._fields
        },
        "evaluation": {
            "accepted": totals.evaluation.num_accepted,
            "uplink": _traffic(totals.evaluation.up, wire and wire["uplink"]["evaluation_bytes"]),
            "downlink": _traffic(totals.evaluation.down, wire and wire["downlink"]["evaluation_bytes"]),
        },
        "wire": wire,
        "wire_bytes_source": wire and SOURCES[wire["source"]],
        "global_hash": [line.global_hash for line in totals.rounds],
        "round_s": _spread([line.round_s for line in completed]),
        "coordination_s": _spread([None if mode == "simulate" else line.coordination_s for line in completed]),
        "time_s": totals.durations.means(),
        "memory": {key: memory.get(key) or None for key in (f"{kind}_peak_rss_bytes" for kind in PEAKS)},
        "gpu_peak_bytes": totals.footprints.gpu_peak_bytes(),
        "energy": totals.footprints.energy(),
        "updates": {"accepted": totals.num_accepted, **msgspec.to_builtins(totals.refusals)},
        "clients": {
            client: {
                **_client(ready),
                "num_evaluations_left_out": totals.num_left_out.get(client, 0),
                "num_states_not_found": totals.links.get(client, LinkCounts()).num_states_not_found,
                **totals.footprints.client(client),
            }
            for client, ready in sorted(totals.announced.items())
        },
        **privacy_summary(spec.privacy, totals.num_releases, mode),
        "versions": dict(versions),
    }
    energy_reason = NO_ENERGY if mode == "simulate" else totals.footprints.energy_reason()
    reasons = {"energy.total_j": energy_reason, **reasons}
    origin = {"init_from": msgspec.to_builtins(totals.init_from)}  # where there is none, nothing is unknown
    return {
        **summary,
        **origin,
        "null_reasons": {path: reasons.get(path) or _reason(path, mode, rule) for path in _nulls(summary)},
    }


def _headline(rule: str, totals: Totals) -> dict[str, Any]:
    per_client = totals.accuracies.per_client(rule, totals.base)
    known = {client: per_client.get(client) for client in totals.clients}
    return {"rule": rule, **_accuracy(rule, totals), "per_client": known}


def _accuracy(rule: str, totals: Totals) -> dict[str, Any]:
    """Return the mean over clients weighted by test samples, how many those are, and beside it the plain one."""
    weighted = totals.accuracies.peak(rule, totals.base)
    mean = totals.accuracies.peak(rule, totals.base, weighted=False)
    num_clients = totals.accuracies.num_clients(rule, totals.base)
    return {**weighted._asdict(), "num_clients": num_clients, "mean": mean._asdict()}


def _wire(totals: Totals) -> dict[str, Any]:
    source = wire_source(totals.links, totals.clients)
    evaluation = (totals.evaluation.up, totals.evaluation.down)
    return wire_summary(source, totals.links, (totals.up, totals.down), evaluation, totals.init)


def _traffic(traffic: Traffic, wire_bytes: int | None) -> dict[str, int | None]:
    """Return a sum's figures, with the bytes on the wire that the run's source says."""
    figures: dict[str, int | None] = msgspec.structs.asdict(traffic)
    del figures["computed_wire_bytes"]
    return {**figures, "wire_bytes": wire_bytes}


def _spread(durations: Sequence[float | None]) -> dict[str, float | None]:
    known = [duration for duration in durations if duration is not None]
    if not known:
        return {"median": None, "p95": None}
    return {"median": float(np.median(known)), "p95": float(np.percentile(known, 95))}


def _client(ready: Ready) -> dict[str, int | str]:
    return {
        "num_train": ready.num_train,
        "num_test": ready.num_test,
        "num_skipped": ready.num_skipped,
        "num_classes_held": len(classes_held(ready.class_counts)),
        "num_parameters": ready.num_parameters,
        "num_buffers": ready.num_buffers,
        "computed_by": ready.computed_by,
    }


def _nulls(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all nulls."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _nulls(value, f"{prefix}{key}.")
        elif value is None:
            yield f"{prefix}{key}"


def _reason(path: str, mode: str, headline: str) -> str:
    top, _, rest = path.partition(".")
    is_simulated = mode == "simulate"
    if top == "clients":
        return _reason_of_client(rest, is_simulated)
    if path.startswith("wire.clients."):
        return "the client has not said so"
    if top == "accuracy" and not headline:
        return "this method tests nothing"
    if rest.startswith("per_client."):
        return f"the client has tested no completed round by {headline}"
    if top.startswith("wire") or rest.endswith("wire_bytes"):
        return NO_TRAVEL if is_simulated else "the bytes of a message are not known"
    if "predicted" in rest:
        return "a client has not announced itself since the restart"
    if top == "time_s":
        return _reason_of_time(rest, is_simulated)
    if top == "coordination_s" and is_simulated:
        return TAKES_TURNS
    return {
        "accuracy": "no completed round was tested by this rule",
        "accuracy_by_rule": "no completed round was tested by this rule",
        "tasks": "a task's last round was not completed, or not tested by this rule",
        "round_s": "no round was completed without a restart",
        "coordination_s": "no round was completed without a restart and with all its clients' work told",
        "simulated": "no completed round was tested by the headline rule",
        "memory": "not measured here",
        "energy": NO_ENERGY if is_simulated else "no client has measured any",
        "gpu_peak_bytes": NOT_APART if is_simulated else "no client has said that it computed on a GPU",
        "privacy": f"the accounting library is not installed here: {EXTRA}",
    }.get(top, "not measured")


def _reason_of_client(rest: str, is_simulated: bool) -> str:
    if rest.endswith(".energy_j"):
        return NO_ENERGY if is_simulated else "the client has not measured it"
    return NOT_APART if is_simulated else "the client has not said so"


def _reason_of_time(part: str, is_simulated: bool) -> str:
    if part == "aggregate":
        return "no exchange of a round has been aggregated"
    if part == "wait":
        return TAKES_TURNS if is_simulated else "no update was accepted without a restart"
    travels = part in ("queue", "downlink", "uplink")
    return NO_TRAVEL if is_simulated and travels else "no client has said how long it took"
