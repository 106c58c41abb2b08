"""Which of a client's evaluations can be true, by the test samples that it announced; accounts take in no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from coordinator.metrics.tally import Score
from models.tasks import TESTED, TaskPlan, counters, in_task
from wire.messages import Evaluation, Ready


class Examiner:
    """Names what a run's evaluations count, and leaves out those that cannot be."""

    def __init__(self, rules: Sequence[str], plan: TaskPlan) -> None:
        self._rules = rules
        self._plan = plan
        self._counters = counters(rules, plan)

    def scores(self, evaluations: Sequence[Evaluation], bookable: Collection[int], ready: Ready | None) -> list[Score]:
        """Return the evaluations that can be.

        Args:
            evaluations: what an update has.
            bookable: the rounds whose models can have been tested.
            ready: what its client announced, None if it has not.
        """
        scores = [Score(told.round, told.num_test, self._named(told.correct)) for told in evaluations]
        return [score for score in scores if ready and score.round in bookable and self._can_be(score, ready)]

    def _named(self, counts: Mapping[int, int]) -> dict[str, int]:
        return {self._counters[index]: count for index, count in counts.items() if 0 <= index < len(self._counters)}

    def _can_be(self, score: Score, ready: Ready) -> bool:
        """Say whether no count is above what it is a part of, and all samples were announced."""
        limits = dict.fromkeys(self._counters, score.num_test)
        if not self._plan.is_trivial:
            for task in self._plan.tasks:
                tested = in_task(TESTED, task)
                limits |= {in_task(rule, task): score.correct.get(tested, 0) for rule in self._rules}
                limits[tested] = min(score.num_test, _announced(ready, self._plan.classes(task)))
        seen = self._plan.classes_seen(self._plan.task_of(score.round))
        fits = 0 <= score.num_test <= _announced(ready, seen)
        return fits and all(0 <= count <= limits[name] for name, count in score.correct.items())


def _announced(ready: Ready, classes: range) -> int:
    """Return how many test samples of these classes a client has, at most; an older one does not say of which."""
    of_classes = sum(ready.test_counts[classes.start : classes.stop])
    return min(of_classes, ready.num_test) if ready.test_counts else ready.num_test
