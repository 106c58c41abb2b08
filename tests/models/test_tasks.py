"""Which rounds and classes a task has, and what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.spec import ConfigError, TasksConfig
from models.tasks import TaskPlan, counters
from tests.models.small_run import make_spec


def test_what_does_not_divide_goes_to_the_first_tasks() -> None:
    plan = TaskPlan(num_tasks=3, num_rounds=7, num_classes=5)
    assert [plan.task_of(round) for round in range(1, 8)] == [1, 1, 1, 2, 2, 3, 3]
    assert [list(classes) for classes in plan.all_classes] == [[0, 1], [2, 3], [4]]
    assert [plan.last_round(task) for task in plan.tasks] == [3, 5, 7]
    assert [round for round in range(1, 8) if plan.ends_task(round)] == [3, 5, 7]
    assert list(plan.classes_seen(2)) == [0, 1, 2, 3]


def test_the_evaluation_behind_the_last_round_is_of_the_last_task() -> None:
    assert TaskPlan(2, 4, 4).task_of(5) == 2


@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_every_round_and_class_has_one_task(num_tasks: int, more_rounds: int, more_classes: int) -> None:
    plan = TaskPlan(num_tasks, num_tasks + more_rounds, num_tasks + more_classes)
    assert [label for classes in plan.all_classes for label in classes] == list(range(plan.num_classes))
    tasks = [plan.task_of(round) for round in range(1, plan.num_rounds + 1)]
    assert tasks == sorted(tasks)
    assert set(tasks) == set(plan.tasks)
    sizes = [tasks.count(task) for task in plan.tasks]
    assert max(sizes) - min(sizes) <= 1


def test_without_tasks_only_the_rules_are_counted() -> None:
    assert counters(("head", "global_head"), TaskPlan(1, 5, 10)) == ("head", "global_head")


def test_with_tasks_each_is_counted_too_and_what_the_head_says() -> None:
    assert counters(("head",), TaskPlan(2, 2, 3)) == (
        *("head", "tested@1", "head@1", "tested@2", "head@2"),
        *("said@0", "said@1", "said@2"),
    )


@pytest.mark.parametrize(("num_tasks", "what"), [(5, "at most 4, all classes"), (4, "at most 3, all rounds")])
def test_more_tasks_than_classes_or_rounds_are_refused(num_tasks: int, what: str) -> None:
    spec = make_spec("any", tasks=TasksConfig(num_tasks=num_tasks))
    with pytest.raises(ConfigError, match=rf"\[tasks\] num_tasks = {num_tasks}: expected {what}"):
        spec.check_tasks()
