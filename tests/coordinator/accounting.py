"""What the tests of the accounts share: a method of two exchanges, its run, and one client's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator.metrics.ledger import Cost, Ledger
from coordinator.metrics.tally import Report
from models.methods.api import Exchange, Method
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, Section, TrainingConfig, WireConfig
from wire.messages import Evaluation, Ready
from wire.payload import Record, class_ids, counts, values


@dataclass(frozen=True)
class Known(Record):
    """Down first: 2 values and an id for each class that is known."""

    means: np.ndarray = values("A", "D")
    classes: np.ndarray = class_ids("A")


@dataclass(frozen=True)
class Held(Record):
    """Up first: 2 values and a count for each class that the client holds."""

    means: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")


@dataclass(frozen=True)
class Age(Record):
    """Down second: as many values as rounds are completed."""

    steps: np.ndarray = values("R")


@dataclass(frozen=True)
class Weights(Record):
    """Up second: the model."""

    parameters: np.ndarray = values("P")


TWO = Method(
    name="two",
    summary="two exchanges a round",
    paper="none",
    config=Section,
    exchanges=(
        Exchange(
            "means",
            Known,
            Held,
            lambda facts: {"A": facts.num_classes_known, "D": facts.feature_dim},
            lambda facts: {"C": facts.num_classes_held, "D": facts.feature_dim},
        ),
        Exchange(
            "weights",
            Age,
            Weights,
            lambda facts: {"R": facts.rounds_completed},
            lambda facts: {"P": facts.num_parameters},
        ),
    ),
    server="nowhere:Server",
    client="nowhere:Client",
    default_rule="anchor",
    global_rules=("anchor",),
)

SPEC = RunSpec(
    run_id="two-1",
    seed=7,
    num_rounds=3,
    method="two",
    method_config={},
    classes=["a", "b", "c", "d"],
    data=DataConfig(),
    model=ModelConfig(feature_dim=2),
    training=TrainingConfig(),
    evaluation=EvaluationConfig(),
    wire=WireConfig(),
)

HEAD, LOCAL, ANCHOR = range(3)
"""The rules of `TWO` by index: two local ones and the global one."""

READY: Mapping[str, Ready] = {
    "ann": Ready(1, 30, 10, [10, 20, 0, 0], 2, 100, 0, computed_by="torch, cpu"),
    "bob": Ready(1, 5, 30, [0, 2, 3, 0], 2, 100, 0),
}

TASK = Cost(8, 40, 60, 64)
UPDATE = Cost(4, 24, 50, 54)


def ledger() -> Ledger:
    """Return the accounts of a run that both clients have joined."""
    made = Ledger(SPEC, TWO)
    for client, ready in READY.items():
        made.announce(client, ready)
    return made


def report(work_s: float, *evaluations: Evaluation) -> Report:
    """Return the report of a client that trained this long, and took 0.25 s each to checkpoint and encode."""
    return Report(evaluations, work_s, 0.0, 0.25, 0.25)


def scored(round: int, num_test: int, **correct: int) -> Evaluation:
    """Return an evaluation with its rules named."""
    numbers = {"head": HEAD, "local": LOCAL, "anchor": ANCHOR}
    return Evaluation(round, num_test, {numbers[rule]: count for rule, count in correct.items()})


class Book:
    """Drives a ledger and keeps the lines it gives, as the store would."""

    def __init__(self) -> None:
        self.ledger = ledger()
        self.exchange_lines: list[str] = []
        self.round_lines: list[str] = []

    def exchange(self, round: int, index: int, at: float, reports: Mapping[str, Report]) -> None:
        """Run one exchange: both are asked at `at`, those with a report answer a second later, 1.5 s are waited."""
        self.open(round, index, at, reports)
        self.ledger.exchange_closing(at + 1.5)
        self.exchange_lines += self.ledger.exchange_closed({"loss": 0.5}, at + 2)

    def open(self, round: int, index: int, at: float, reports: Mapping[str, Report]) -> None:
        """Run one exchange up to its close."""
        self.ledger.exchange_opened(round, index, ["bob", "ann"], at)
        for client in READY:
            self.ledger.task_sent(client, TASK, at)
        for client, told in reports.items():
            self.ledger.update_accepted(client, UPDATE, told, at + 1)

    def close(self, round: int, at: float, status: Any = "completed", reason: str = "") -> None:
        """Close the round."""
        *lines, line = self.ledger.round_closed(round, status, reason, f"hash{round}", at)
        self.exchange_lines += lines
        self.round_lines.append(line)

    def round(self, round: int, at: float, first: Mapping[str, Report], last: Mapping[str, Report]) -> None:
        """Run a whole round of 5 seconds."""
        self.ledger.round_opened(round, at)
        self.exchange(round, 0, at, first)
        self.exchange(round, 1, at + 2, last)
        self.close(round, at + 5)


MEMORY = {"coordinator_peak_rss_bytes": 40 << 20, "client_peak_rss_bytes": None}


def summary_of(accounts: Ledger, mode: str = "loopback") -> dict[str, Any]:
    return accounts.summary(mode, MEMORY, {"python": "3"})


def whole_run() -> Book:
    """Three rounds: the second one fails after its first exchange, bob misses the end of the third."""
    book = Book()
    book.round(
        1,
        100,
        {"ann": report(0.5), "bob": report(1)},
        {"ann": report(1, scored(1, 10, head=5, local=4)), "bob": report(0.5, scored(1, 30, head=21, local=30))},
    )
    book.ledger.round_opened(2, 110)
    told = {"ann": report(0, scored(1, 10, anchor=10)), "bob": report(0, scored(1, 30, anchor=0))}
    book.exchange(2, 0, 110, told)
    book.open(2, 1, 112, {"ann": report(0, scored(2, 10, head=10))})
    book.ledger.since_start.refused("stale")
    book.close(2, 120, "failed", "1 of 2 updates")
    book.round(3, 120, told, {"ann": report(2, scored(3, 10, head=9))})
    book.exchange(3, 2, 130, {"ann": report(0, scored(3, 10, anchor=5)), "bob": report(0, scored(3, 30, anchor=30))})
    return book
