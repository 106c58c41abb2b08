"""Accuracy task by task, from what clients counted."""

import math

import pytest

from coordinator.metrics.tally import Score
from coordinator.metrics.task_scores import TaskScores
from models.tasks import TaskPlan

PLAN = TaskPlan(num_tasks=2, num_rounds=4, num_classes=4)


def scores() -> TaskScores:
    made = TaskScores(("head",), PLAN)
    made.book("a", [Score(2, 10, {"head": 8, "tested@1": 10, "head@1": 8, "said@0": 10})])
    made.book("b", [Score(2, 30, {"head": 12, "tested@1": 30, "head@1": 12, "said@0": 15, "said@1": 15})])
    made.book("a", [Score(4, 20, {"head": 10, "tested@1": 10, "tested@2": 10, "head@2": 10})])
    return made


def test_accuracies_are_weighted_by_samples_and_averaged_over_tasks() -> None:
    summary = scores().summary({1, 2, 3, 4})
    assert summary["accuracy"] == {"head": [[0.5], [0.0, 1.0]]}
    assert summary["final_average_accuracy"] == {"head": 0.5}
    assert (summary["classes"], summary["last_rounds"]) == ([[0, 1], [2, 3]], [2, 4])


def test_the_entropy_of_responses_is_the_mean_over_clients() -> None:
    assert scores().summary({2})["response_entropy"] == [pytest.approx(math.log(2) / 2), None]


def test_a_round_that_failed_does_not_count() -> None:
    summary = scores().summary({1, 2, 3})
    assert summary["accuracy"] == {"head": [[0.5], [None, None]]}
    assert summary["final_average_accuracy"] == {"head": None}


def test_rounds_within_a_task_are_left_out_and_the_latest_word_holds() -> None:
    made = scores()
    made.book("a", [Score(3, 20, {"head": 0, "head@1": 0, "tested@1": 10})])
    made.book("a", [Score(4, 20, {"head": 15, "tested@1": 10, "tested@2": 10, "head@1": 5, "head@2": 10})])
    assert made.summary({4})["accuracy"]["head"][1] == [0.5, 1.0]


def test_a_run_without_tasks_has_no_such_figures() -> None:
    made = TaskScores(("head",), TaskPlan(1, 2, 4))
    made.book("a", [Score(2, 10, {"head": 8})])
    assert made.summary({1, 2}) == {}


def test_each_rule_has_the_samples_that_it_was_told_with() -> None:
    made = TaskScores(("head", "anchor"), TaskPlan(num_tasks=2, num_rounds=4, num_classes=4))
    made.book("a", [Score(2, 10, {"head": 8, "tested@1": 10, "head@1": 8})])
    made.book("a", [Score(2, 1, {"anchor": 1, "tested@1": 1, "anchor@1": 1})])
    assert [matrix[0] for matrix in made.summary({2})["accuracy"].values()] == [[0.8], [1.0]]
