"""GFPL, Figure 3a: accuracy by lambda, the weight of the loss that draws features to their class's direction."""

from __future__ import annotations

from tests.benchmarks.papers import gfpl
from tests.benchmarks.papers.samples import DIGITS, MNIST
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

PAPER = {"0": 94.05, "1": None, "2": 98.91}
"""Those that the paper's text names."""

ROWS = [Row(f"lambda = {each}", (gfpl.OWN, f"method.regularizer_weight={each}"), PAPER[each]) for each in PAPER]

ORDER = ("lambda = 2", "lambda = 0")

SMALL = ("data.ways=3", "data.shots=10", "data.shots_half_range=0", "data.test_shots=10", "run.num_rounds=40")

SMALLER = "At this scale: 10 shots of scikit-learn's digits, 10 test samples of a class, 40 rounds, three seeds."


def table(scale: Scale) -> PaperTable:
    """Return 3-way 100-shot MNIST with five seeds, or few shots of digits."""
    if scale == "cpu":
        settings = (*gfpl.SETTINGS, *SMALL)
        return PaperTable([gfpl.ABOUT, SMALLER], [Federation("Digits, w = 3", DIGITS, settings, ROWS, [ORDER], 3)])
    settings = (*gfpl.SETTINGS, "data.ways=3", *CUDA)
    return PaperTable([gfpl.ABOUT], [Federation("MNIST, w = 3", MNIST, settings, ROWS, [ORDER], 5)])
