"""How models test at the end of each task: accuracy task by task, and how one-sided clients' own predictions are."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from coordinator.metrics.tally import Score
from coordinator.units import show_numbers
from models.tasks import TESTED, TaskPlan, in_task, response

Counts = Mapping[str, int]
"""What one client counted over its test samples, by the names of `models.tasks.counters`."""

Told = Mapping[str, Counts]
"""By rule, the counts that one client told with it: samples may change from one word to the next."""


BEST_OF_TASKS = "the best and the last of a run with tasks are over the classes seen by that round"
"""What is said beside the accuracies of a run with tasks."""


class TaskScores:
    """The counts of each client for the model after each task's last round; its latest word holds."""

    def __init__(self, rules: Sequence[str], plan: TaskPlan) -> None:
        self._rules = rules
        self._plan = plan
        self._told: dict[int, dict[str, dict[str, Counts]]] = {}

    def book(self, client: str, scores: Sequence[Score]) -> None:
        """Take in what a client reported; what is not of a task's last round is left out."""
        for score in scores:
            if not self._plan.is_trivial and self._plan.ends_task(score.round):
                task = self._plan.task_of(score.round)
                told = self._told.setdefault(task, {}).setdefault(client, {})
                told.update({rule: score.correct for rule in self._rules if rule in score.correct})

    def summary(self, completed: Collection[int]) -> dict[str, Any]:
        """Return the run's figures by task, nothing for a run without tasks; `completed` are its completed rounds.

        `accuracy` has for each rule one row per task, the accuracies after it on the tasks so far, weighted by test
        samples. The final average accuracy is the plain mean of the last row. `response_entropy` is the mean over
        clients, in nats, of the entropy of the classes that their own heads predict after local training.
        """
        plan = self._plan
        if plan.is_trivial:
            return {}
        known = {task: self._told.get(task, {}) if plan.last_round(task) in completed else {} for task in plan.tasks}
        matrices = {
            rule: [[_accuracy(known[row], rule, task) for task in plan.tasks[:row]] for row in plan.tasks]
            for rule in self._rules
        }
        return {
            "num_tasks": plan.num_tasks,
            "classes": [list(classes) for classes in plan.all_classes],
            "last_rounds": [plan.last_round(task) for task in plan.tasks],
            "final_average_accuracy": {rule: _mean(matrix[-1]) for rule, matrix in matrices.items()},
            "accuracy": matrices,
            "response_entropy": [_response_entropy(known[task], plan.num_classes) for task in plan.tasks],
        }


def accuracies_at_end(summary: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return for each task, such as `task 2, classes 5 to 9`, its accuracies by rule after the last one.

    Nothing is returned for the `summary.json` of a run without tasks.
    """
    tasks = summary.get("tasks")
    if not tasks:
        return {}
    labels = [f"task {task}, classes {show_numbers(classes)}" for task, classes in enumerate(tasks["classes"], 1)]
    return {label: [matrix[-1][task] for matrix in tasks["accuracy"].values()] for task, label in enumerate(labels)}


def _accuracy(told: Mapping[str, Told], rule: str, task: int) -> float | None:
    """Return the accuracy of a rule on one task over all clients that tested it, None if nobody did."""
    tested = [each[rule] for each in told.values() if rule in each]
    num_test = sum(counts.get(in_task(TESTED, task), 0) for counts in tested)
    return sum(counts.get(in_task(rule, task), 0) for counts in tested) / num_test if num_test else None


def _mean(accuracies: Sequence[float | None]) -> float | None:
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    return statistics.fmean(known) if len(known) == len(accuracies) else None


def _response_entropy(told: Mapping[str, Told], num_classes: int) -> float | None:
    entropies = []
    for each in told.values():
        counts = {name: count for of_rule in each.values() for name, count in of_rule.items()}
        said_C = np.array([counts.get(response(label), 0) for label in range(num_classes)], np.float64)
        if said_C.any():
            shares = said_C[said_C > 0] / said_C.sum()
            entropies.append(float(-(shares * np.log(shares)).sum()))
    return statistics.fmean(entropies) if entropies else None
