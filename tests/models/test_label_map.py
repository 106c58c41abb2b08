"""Class names of a data set of one's own, and the run's."""

from __future__ import annotations

import numpy as np
import pytest

from models.data import ClientData
from models.label_map import onto_label_map
from models.spec import ConfigError

OWN = ClientData(
    train_x=np.arange(4.0, dtype=np.float32)[:, None],
    train_y=np.array([0, 1, 2, 1]),
    test_x=np.array([[9.0]], np.float32),
    test_y=np.array([2]),
    classes=["eel", "cat", "gnu"],
)


def test_a_class_has_the_runs_id_by_its_name() -> None:
    data = onto_label_map(OWN, ["cat", "dog", "eel", "gnu"], "refuse")
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([2, 0, 3, 0], [3])
    assert (data.classes, data.num_skipped, data.notes) == (["cat", "dog", "eel", "gnu"], 0, [])


def test_samples_of_unknown_classes_are_refused_or_left_out() -> None:
    with pytest.raises(ConfigError, match=r"no class 'gnu' in the label map; expected one of \['cat', 'eel'\]"):
        onto_label_map(OWN, ["cat", "eel"], "refuse")
    data = onto_label_map(OWN, ["cat", "eel"], "skip")
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([1, 0, 0], [])
    assert data.train_x.ravel().tolist() == [0.0, 1.0, 3.0]
    assert data.num_skipped == 2
    assert data.notes == ["2 samples of classes that are not in the label map are left out: ['gnu']"]


def test_of_many_unknown_classes_a_few_are_named() -> None:
    names = [f"c{number:02d}" for number in range(25)]
    none = np.array([], np.int64)
    data = onto_label_map(ClientData(np.zeros((25, 1)), np.arange(25), OWN.test_x[:0], none, names), ["cat"], "skip")
    shown = f"{names[:20]} and 5 more"
    assert data.notes == [f"25 samples of classes that are not in the label map are left out: {shown}"]


def test_an_unknown_class_without_samples_matters_to_nobody() -> None:
    spare = ClientData(OWN.train_x, OWN.train_y, OWN.test_x, OWN.test_y, [*OWN.classes, "yak"])
    assert onto_label_map(spare, ["gnu", "cat", "eel"], "refuse").num_skipped == 0
