"""Learning tasks: classes that come one group after the other, each for some rounds, instead of all at once.

Tasks are numbered from 1, as rounds are. Everything follows from the run's settings and the number of a round, so a
message that names its round names its task and classes too. A run without tasks has one, of all classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class TaskPlan(msgspec.Struct, frozen=True):
    """Which task a round belongs to, and which classes a task brings.

    Classes, in label order, and rounds are shared out evenly; where they do not divide, the first tasks get one more.
    """

    num_tasks: int
    num_rounds: int
    num_classes: int

    @property
    def is_trivial(self) -> bool:
        """Whether there is one task only."""
        return self.num_tasks == 1

    @property
    def tasks(self) -> range:
        """The numbers of all tasks."""
        return range(1, self.num_tasks + 1)

    @property
    def all_classes(self) -> list[range]:
        """The ids of the classes that each task brings."""
        return [self.classes(task) for task in self.tasks]

    def task_of(self, round: int) -> int:
        """Return the task of a round from 1 on; what comes behind the last round belongs to the last task."""
        if self.is_trivial:
            return 1
        return next((task for task in self.tasks if round <= self.last_round(task)), self.num_tasks)

    def last_round(self, task: int) -> int:
        """Return the last round of a task."""
        return _end(self.num_rounds, self.num_tasks, task)

    def ends_task(self, round: int) -> bool:
        """Say whether this is the last round of its task."""
        return round == self.last_round(self.task_of(round))

    def classes(self, task: int) -> range:
        """Return the ids of the classes that a task brings."""
        return range(_end(self.num_classes, self.num_tasks, task - 1), _end(self.num_classes, self.num_tasks, task))

    def classes_seen(self, task: int) -> range:
        """Return the ids of the classes of this task and all before it."""
        return range(_end(self.num_classes, self.num_tasks, task))


def counters(rules: Sequence[str], plan: TaskPlan) -> tuple[str, ...]:
    """Return the names of what is counted over test samples, in the order in which reports number them.

    First come the accuracy rules, over the classes seen so far. A run of several tasks goes on with each rule for each
    task alone, the samples of each task, and how many samples the head took for each class.
    """
    if plan.is_trivial:
        return tuple(rules)
    by_task = [in_task(name, task) for task in plan.tasks for name in (TESTED, *rules)]
    return (*rules, *by_task, *(response(label) for label in range(plan.num_classes)))


TESTED = "tested"
"""The counter of a task's test samples."""


def in_task(name: str, task: int) -> str:
    """Return the name of a counter over the samples of one task."""
    return f"{name}@{task}"


def is_rule(counter: str) -> bool:
    """Say whether a counter is an accuracy rule over the classes seen so far, not one of a task or of answers."""
    return "@" not in counter


def response(label: int) -> str:
    """Return the name of the counter of samples that the head took for this class."""
    return f"said@{label}"


def _end(total: int, num_parts: int, part: int) -> int:
    """Return where the first so many parts end."""
    return part * (total // num_parts) + min(part, total % num_parts)
