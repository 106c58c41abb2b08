"""Which evaluations can be, by what their client announced."""

from __future__ import annotations

import pytest

from coordinator.metrics.evaluations import Examiner
from models.tasks import TaskPlan, counters
from wire.messages import Evaluation, Ready

RULES = ("head", "anchor")
ONE, TWO = TaskPlan(1, 4, 4), TaskPlan(num_tasks=2, num_rounds=4, num_classes=4)
READY = Ready(1, 20, 10, [5, 5, 5, 5], 2, 100, 0, test_counts=[4, 2, 3, 1])


def kept(plan: TaskPlan, round: int, num_test: int, counts: dict[str, int], ready: Ready | None = READY) -> bool:
    names = counters(RULES, plan)
    told = Evaluation(round, num_test, {names.index(name): count for name, count in counts.items()})
    return bool(Examiner(RULES, plan).scores([told], {round}, ready))


def test_a_client_tests_with_what_it_announced_at_most() -> None:
    assert kept(ONE, 1, 10, {"head": 10})
    assert kept(ONE, 1, 0, {})
    assert not kept(ONE, 1, 11, {"head": 0})
    assert not kept(ONE, 1, -1, {})
    assert not kept(ONE, 1, 10**9, {"head": 10**9})


@pytest.mark.parametrize("count", [-1, 11])
def test_one_count_that_cannot_be_costs_the_whole_evaluation(count: int) -> None:
    assert not kept(ONE, 1, 10, {"head": 5, "anchor": count})


def test_in_a_task_the_classes_seen_so_far_are_tested() -> None:
    assert kept(TWO, 2, 6, {"head": 6, "tested@1": 6, "head@1": 6, "said@0": 6})
    assert not kept(TWO, 2, 7, {"head": 6, "tested@1": 6, "head@1": 6})
    assert kept(TWO, 3, 10, {"head": 6, "tested@1": 6, "tested@2": 4, "head@2": 4})


@pytest.mark.parametrize(
    "counts", [{"tested@2": 5}, {"tested@2": 1, "head@2": 2}, {"head@2": 1}, {"tested@1": 7}, {"said@3": 11}]
)
def test_a_part_is_not_more_than_what_it_is_a_part_of(counts: dict[str, int]) -> None:
    assert not kept(TWO, 3, 10, counts)


def test_an_older_client_does_not_say_of_which_classes_its_test_samples_are() -> None:
    older = Ready(1, 20, 10, [5, 5, 5, 5], 2, 100, 0)
    assert kept(TWO, 2, 10, {"tested@1": 10}, older)
    assert not kept(TWO, 2, 11, {}, older)


def test_who_has_announced_nothing_and_what_cannot_have_been_tested_are_left_out() -> None:
    assert not kept(ONE, 1, 0, {}, None)
    assert Examiner(RULES, ONE).scores([Evaluation(2, 10, {0: 1})], {1}, READY) == []


def test_what_is_not_known_to_be_counted_is_nobody_s_fault() -> None:
    (score,) = Examiner(RULES, ONE).scores([Evaluation(1, 10, {0: 9, 7: 99})], {1}, READY)
    assert score.correct == {"head": 9}
