from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from models import methods, nets
from models.methods.api import RoundFailedError
from models.methods.fedpa import Config
from models.methods.fedpa.generator import Generator, draw, draw_noise, label_distribution
from models.methods.fedpa.generator_training import GeneratorTraining, Teachers
from models.methods.fedpa.losses import Classifiers
from models.spec import ConfigError, ModelConfig
from tests.models.small_run import make_spec

SPEC = make_spec("fedpa", model=ModelConfig(feature_dim=3))


@pytest.mark.parametrize(("num_classes", "num_parameters"), [(10, 19_744), (26, 23_840)])
def test_its_sizes_are_the_papers(num_classes: int, num_parameters: int) -> None:
    spec = make_spec("fedpa", num_classes=num_classes, model=ModelConfig(feature_dim=32))
    made = Generator.of(spec, Config())
    assert (nets.flatten_parameters(made).size, nets.flatten_buffers(made).size) == (num_parameters, 512)


def test_in_evaluation_mode_a_feature_does_not_depend_on_the_others() -> None:
    made = Generator.of(SPEC, Config()).eval()
    noise, labels = torch.randn(3, 32), torch.tensor([0, 1, 3])
    assert torch.allclose(made(noise, labels)[1:2], made(noise[1:2], labels[1:2]), atol=1e-6)


def test_a_feature_depends_on_its_class() -> None:
    made = Generator.of(SPEC, Config()).eval()
    noise = torch.randn(1, 32).expand(2, -1)
    first, second = made(noise, torch.tensor([0, 1]))
    assert (first != second).all()


def test_a_class_without_counts_is_never_drawn() -> None:
    distribution = label_distribution(np.array([0, 30, 0, 10]), "global")
    assert distribution.tolist() == [0.0, 0.75, 0.0, 0.25]
    drawn = draw(np.random.default_rng(0), distribution, 400, Config())
    assert sorted(set(drawn.labels_B.tolist())) == [1, 3]
    assert (drawn.labels_B == 1).float().mean().item() == pytest.approx(0.75, abs=0.1)
    assert (drawn.labels_B.dtype, drawn.noise_BZ.dtype) == (torch.int64, torch.float32)


def test_known_classes_may_be_equally_likely() -> None:
    assert label_distribution(np.array([0, 30, 0, 10]), "uniform").tolist() == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize(("noise", "mean", "deviation"), [("normal", 0.0, 1.0), ("uniform", 0.5, 1 / 12**0.5)])
def test_noise_has_its_distribution(noise: str, mean: float, deviation: float) -> None:
    drawn = draw_noise(np.random.default_rng(0), 500, Config(noise=noise))  # type: ignore[arg-type]
    assert drawn.shape == (500, 32)
    assert drawn.mean().item() == pytest.approx(mean, abs=0.02)
    assert drawn.std().item() == pytest.approx(deviation, abs=0.02)


@pytest.mark.parametrize(
    ("key", "value"),
    [("generator_batch_size", 1), ("distance", "l1"), ("diversity_pairs", "none"), ("labels", "all"), ("decay", 1.5)],
)
def test_a_setting_that_cannot_work_is_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"of fedpa: {key} = {value!r}: expected"):
        methods.read_config(methods.find("fedpa"), {key: value})


def training(**config: Any) -> GeneratorTraining:
    return GeneratorTraining(SPEC, Config(hidden_dim=16, **config))


def teachers(scale: float = 1.0) -> Teachers:
    """Two clients that tell three of four classes apart by the sign and size of each dimension."""
    weights = torch.eye(4)[:, :3].expand(2, -1, -1) * scale
    shares = torch.tensor([[0.5, 1.0, 0.0, 0.0], [0.5, 0.0, 1.0, 0.0]])
    classifiers = Classifiers(weights, torch.zeros(2, 4), shares)
    return Teachers(classifiers, torch.zeros(4, 3), np.array([0.5, 0.25, 0.25, 0.0]))


def differ(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return any((array != other[name]).any() for name, array in one.items())


def test_training_makes_features_that_the_classifiers_recognise() -> None:
    made = training(generator_lr=0.01)
    told = [made.train(teachers(), round, age=0)["fidelity_loss"] for round in (1, 2, 3)]
    assert told[2] < told[0] / 2
    made.generator.eval()
    labels = torch.tensor([0, 1, 2]).repeat(50)
    recognised = made.generator(torch.randn(150, 32), labels).argmax(dim=1) == labels
    assert recognised.float().mean() > 0.9


def test_the_adversarial_term_drives_features_away_from_their_prototypes() -> None:
    near, far = (training(adversarial_weight=weight, generator_lr=0.01) for weight in (0.0, 5.0))
    norms = []
    for made in (near, far):
        for round in range(1, 4):
            made.train(teachers(), round, age=0)
        norms.append(made.describe(np.array([0, 1, 2]))["generated_norm"])
    assert norms[1] > 2 * norms[0]


@pytest.mark.parametrize("term", ["diversity", "adversarial"])
def test_a_term_of_weight_0_is_not_computed(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = {"diversity": "diversity", "adversarial": "distances"}[term]
    monkeypatch.setattr(f"models.methods.fedpa.generator_training.{function}", None)
    told = training(**{f"{term}_weight": 0.0}).train(teachers(), 1, age=0)
    assert set(told) == {"fidelity_loss", "diversity_loss", "adversarial_loss"} - {f"{term}_loss"}


def test_rounds_draw_anew_and_a_repeated_round_draws_the_same() -> None:
    states = []
    for round in (1, 1, 2):
        made = training()
        made.train(teachers(), round, age=0)
        states.append(made.arrays())
    assert not differ(states[0], states[1])
    assert differ(states[0], states[2])


def test_it_goes_on_from_its_arrays_bit_for_bit() -> None:
    made, other = training(), training()
    made.train(teachers(), 1, age=0)
    assert {name.partition(".")[0] for name in made.arrays()} == {"generator", "optimizer"}
    other.load(made.arrays())
    for each in (made, other):
        each.train(teachers(), 2, age=1)
    assert not differ(made.arrays(), other.arrays())


def test_the_learning_rate_decays_with_age() -> None:
    """Adam's first step is as long as its learning rate, but for the decayed weights' share of the gradient."""
    moved = []
    for age in (0, 10):
        made = training(generator_steps=1, generator_lr_decay=0.5)
        before = made.arrays()["generator.layers.3.bias"]
        made.train(teachers(), 1, age)
        moved.append(np.abs(made.arrays()["generator.layers.3.bias"] - before).max())
    assert moved[0] == pytest.approx(3e-4, rel=1e-3)
    assert moved[1] == pytest.approx(3e-4 / 2**10, rel=0.05)


@pytest.mark.parametrize(("clip_norm", "is_clipped"), [(0.0, False), (1e-3, True)])
def test_gradients_are_clipped_where_that_is_wanted(clip_norm: float, is_clipped: bool) -> None:
    made = training(generator_steps=1, clip_norm=clip_norm, generator_weight_decay=0.0)
    made.train(teachers(), 1, age=0)
    squares = [array.sum() for name, array in made.arrays().items() if name.endswith("exp_avg_sq")]
    norm = (sum(squares) / (1 - 0.999)) ** 0.5
    assert bool(norm < 1.01e-3) == is_clipped


def test_a_generator_that_diverges_fails_the_round_and_stays_as_it_was() -> None:
    made = training(generator_lr=1e30)
    before = made.arrays()
    with pytest.raises(RoundFailedError, match="round 7: the generator diverged; set clip_norm or lower generator_lr"):
        made.train(teachers(), 7, age=0)
    assert made.arrays().keys() == before.keys()
    assert not differ(made.arrays(), before)


def test_without_steps_nothing_moves() -> None:
    made = training(generator_steps=0)
    before = made.arrays()
    assert made.train(teachers(), 1, age=0) == {}
    assert not differ(made.arrays(), before)


def test_its_features_are_described_for_equal_noise() -> None:
    made = training()
    told = made.describe(np.array([0, 1, 2]))
    assert set(told) == {"generated_norm", "intra_class_distance", "inter_class_distance"}
    assert told == made.describe(np.array([0, 1, 2]))
    assert all(value > 0 for value in told.values())
