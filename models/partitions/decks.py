"""Rows of each class in random order, dealt from the top, each once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.partition import Labels


class Decks:
    """A shuffled stack of rows for each class."""

    def __init__(self, labels: np.ndarray, rows: np.ndarray, random: np.random.Generator) -> None:
        """Stack `rows` by their class in `labels`, which has one for each row of the data set."""
        self._stacks = {
            int(label): random.permutation(rows[labels[rows] == label]) for label in np.unique(labels[rows])
        }

    def count(self, label: int) -> int:
        """Return how many rows of a class are left."""
        return len(self._stacks.get(label, ()))

    def deal(self, label: int, wanted: int) -> np.ndarray:
        """Return so many rows of a class, or all that are left."""
        stack = self._stacks.get(label, np.empty(0, np.int64))
        self._stacks[label] = stack[wanted:]
        return stack[:wanted]


def decks_for_tests(labels: Labels, used: Sequence[np.ndarray], random: np.random.Generator) -> Decks:
    """Stack the rows that test parts are dealt from: the test set apart, or where there is none what no client uses."""
    rows = labels.test_rows
    if not len(rows):
        rows = np.setdiff1d(np.arange(len(labels.y)), np.concatenate(used))
    return Decks(labels.y, rows, random)
