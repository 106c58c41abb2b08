"""A data set's own class names against the run's label map: the same class has the same id everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from models.data import ClientData
from models.spec import ConfigError, did_you_mean

UnknownLabels = Literal["refuse", "skip"]
"""What becomes of samples whose class is not in the label map."""

_NAMED_AT_MOST = 20
"""Classes that a text names."""


def onto_label_map(data: ClientData, classes: Sequence[str], unknown: UnknownLabels) -> ClientData:
    """Return a client's samples with the ids of the label map `classes`, found by name.

    Raises:
        ConfigError: there are samples of a class that has no such name, and they are to be refused.
    """
    if data.classes == list(classes):
        return data
    ids = np.array([list(classes).index(name) if name in classes else -1 for name in data.classes], np.int64)
    train_y, test_y = ids[data.train_y], ids[data.test_y]
    strangers = np.flatnonzero(np.bincount(np.concatenate([data.train_y, data.test_y]), minlength=len(ids)) * (ids < 0))
    names = [data.classes[index] for index in strangers]
    if names and unknown == "refuse":
        raise ConfigError(refusal_of_class(names[0], classes))
    num_skipped = int((train_y < 0).sum() + (test_y < 0).sum())
    num_more = len(names) - _NAMED_AT_MOST
    which = f"{names[:_NAMED_AT_MOST]}" + (f" and {num_more} more" if num_more > 0 else "")
    note = [f"{num_skipped} samples of classes that are not in the label map are left out: {which}"] if names else []
    return replace(
        data,
        train_x=data.train_x[train_y >= 0],
        train_y=train_y[train_y >= 0],
        test_x=data.test_x[test_y >= 0],
        test_y=test_y[test_y >= 0],
        classes=list(classes),
        notes=[*data.notes, *note],
        num_skipped=data.num_skipped + num_skipped,
    )


def refusal_of_class(name: str, classes: Sequence[str]) -> str:
    """Say that the label map has no class of this name, and which one may have been meant."""
    hint = did_you_mean(name, classes) or f"expected one of {list(classes[:_NAMED_AT_MOST])}"
    return f"no class {name!r} in the label map; {hint}"
