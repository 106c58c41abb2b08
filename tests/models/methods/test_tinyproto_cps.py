import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import methods
from models.checkpoint import state_hash
from models.methods.tinyproto import Config
from models.methods.tinyproto.cps import compress, draw_masks, read_masks, reconstruct, smallest_distance, write_masks
from models.spec import ConfigError, ModelConfig, RunSpec
from tests.models.small_run import make_spec
from wire.errors import RecordError

ROOT = Path(__file__).parents[3]


def distances(kept_CS: np.ndarray, feature_dim: int) -> np.ndarray:
    masks_CD = reconstruct(np.ones(kept_CS.shape), kept_CS, feature_dim)
    pairs = np.triu_indices(len(masks_CD), 1)
    between: np.ndarray = np.abs(masks_CD[:, None] - masks_CD).sum(axis=2)[pairs]
    return between


def is_balanced(kept_CS: np.ndarray, feature_dim: int) -> bool:
    """Whether each class keeps different features, ascending, and all features are kept equally often or once more."""
    uses = np.bincount(kept_CS.ravel(), minlength=feature_dim)
    return bool((np.diff(kept_CS, axis=1) > 0).all() and len(uses) == feature_dim and np.ptp(uses) <= 1)


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 60), st.data())
def test_all_features_are_kept_equally_often(
    seed: int, num_classes: int, feature_dim: int, data: st.DataObject
) -> None:
    dim = data.draw(st.integers(1, feature_dim))
    kept = draw_masks(seed, num_classes, feature_dim, dim)
    assert kept.shape == (num_classes, dim)
    assert is_balanced(kept, feature_dim)
    if num_classes * dim <= feature_dim:
        assert (distances(kept, feature_dim) == 2 * dim).all()


@pytest.mark.parametrize("seed", range(5))
def test_masks_are_as_far_apart_as_they_can_be(seed: int) -> None:
    """The sum over pairs is that over features of u (K - u), most where 2,150 uses make 4 or 5 of each of 500."""
    best = (350 * 4 * 39 + 150 * 5 * 38) / (43 * 42 / 2)
    between = distances(draw_masks(seed, 43, 500, 50), 500)
    assert between.mean() == pytest.approx(best)
    assert round(best, 2) == 92.03
    assert between.min() >= 70


@pytest.mark.parametrize(("num_classes", "dim"), [(2, 20), (43, 20), (43, 3), (300, 20), (600, 2)])
def test_the_smallest_distance_is_that_of_the_closest_pair(num_classes: int, dim: int) -> None:
    kept = draw_masks(3, num_classes, 60, dim)
    assert smallest_distance(kept, 60) == distances(kept, 60).min()


def test_the_mask_of_a_class_by_itself_is_as_far_from_others_as_can_be() -> None:
    assert smallest_distance(np.array([[1, 4, 5]]), 8) == 6


def test_many_classes_are_no_exception() -> None:
    kept = draw_masks(0, 1000, 2048, 205)
    assert kept.shape == (1000, 205)
    assert is_balanced(kept, 2048)


def test_masks_are_those_of_the_seed_in_every_process() -> None:
    code = "from models.methods.tinyproto.cps import draw_masks; print(draw_masks(7, 5, 20, 6).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == str(draw_masks(7, 5, 20, 6).tolist())
    assert draw_masks(7, 5, 20, 6).tolist() != draw_masks(8, 5, 20, 6).tolist()


METHOD = methods.find("tinyproto-fp")


def run_of(num_classes: int = 3, feature_dim: int = 10) -> RunSpec:
    return make_spec("tinyproto-fp", num_classes, model=ModelConfig(feature_dim=feature_dim))


@pytest.mark.parametrize("cps", [True, False])
def test_the_run_constant_holds_the_masks(cps: bool) -> None:
    config = Config(prototype_dim=4, cps=cps)
    constants = METHOD.make_server(run_of(), config).constants()
    kept = read_masks(constants["masks"], run_of(), config)
    assert kept.tolist() == (draw_masks(0, 3, 10, 4).tolist() if cps else [list(range(10))] * 3)
    again = METHOD.make_server(run_of(), config).constants()
    assert state_hash(again["masks"]) == state_hash(constants["masks"])


@pytest.mark.parametrize(("num_classes", "feature_dim", "dim"), [(3, 12, 4), (4, 10, 4), (3, 10, 5)])
def test_masks_of_other_sizes_are_refused(num_classes: int, feature_dim: int, dim: int) -> None:
    arrays = write_masks(draw_masks(0, 3, 10, 4), 10)
    with pytest.raises(RecordError, match="'positions'"):
        read_masks(arrays, run_of(num_classes, feature_dim), Config(prototype_dim=dim))


def test_masks_that_keep_more_of_one_class_than_of_another_are_refused() -> None:
    uneven = write_masks(np.array([[0, 1, 2, 11]]), 20)
    with pytest.raises(ConfigError, match=r"masks: expected 2 features of each class, got \[3, 1\]"):
        read_masks(uneven, run_of(num_classes=2), Config(prototype_dim=2))


def test_prototypes_pass_through_masks_by_hand() -> None:
    kept = np.array([[0, 3], [1, 2]])
    compressed = compress(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), kept)
    assert compressed.tolist() == [[1.0, 4.0], [6.0, 7.0]]
    assert reconstruct(compressed, kept, 4).tolist() == [[1.0, 0.0, 0.0, 4.0], [0.0, 6.0, 7.0, 0.0]]


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"prototype_dim = 11: expected at most \[model\] feature_dim = 10"):
        METHOD.make_server(run_of(), Config(prototype_dim=11))
    with pytest.raises(ConfigError, match="prototype_dim = 0: expected `int` >= 1"):
        methods.read_config(METHOD, {"prototype_dim": 0})
    with pytest.raises(ConfigError, match=r"tinyproto-fp: expected at least 2 classes, got \['0'\]"):
        METHOD.make_server(run_of(num_classes=1), Config())
