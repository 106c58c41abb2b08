"""That the default run learns: four clients of the digits data set, uneven by label."""

from collections import Counter, defaultdict

import pytest

from models import methods
from models.data import dataset_classes, load_client_data
from models.methods.api import LOCAL_RULES
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from tests.models.federation import Federation

NUM_ROUNDS = 10


def best_accuracies(spec: RunSpec) -> dict[str, float]:
    """The best accuracy over all rounds by rule, clients weighted by their test samples."""
    run = Federation(spec, {f"client{index}": load_client_data(spec, index) for index in range(spec.data.num_clients)})
    correct: defaultdict[int, Counter[int]] = defaultdict(Counter)
    num_test: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for number in range(1, spec.num_rounds + 1):
        for outcome in run.round(number)[-1].outcomes.values():
            for evaluation in outcome.evaluations:
                for rule, count in evaluation.correct.items():
                    correct[rule][evaluation.round] += count
                    num_test[rule][evaluation.round] += evaluation.num_test
    return {
        run.method.rules[rule]: max(count / num_test[rule][number] for number, count in counts.items())
        for rule, counts in correct.items()
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_run_reaches_its_accuracy(seed: int) -> None:
    data = DataConfig()
    spec = RunSpec(
        run_id="digits",
        seed=seed,
        num_rounds=NUM_ROUNDS,
        method=methods.default().name,
        method_config={},
        classes=dataset_classes(data),
        data=data,
        model=ModelConfig(),
        training=TrainingConfig(),
        evaluation=EvaluationConfig(),
        wire=WireConfig(),
    )
    best = best_accuracies(spec)
    assert all(best[rule] >= 0.94 for rule in LOCAL_RULES), best
