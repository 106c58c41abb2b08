"""FedPA, Table V: how far apart generated features are, within and between classes, on MNIST instead of EMNIST."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.papers import fedpa
from tests.benchmarks.papers.samples import MNIST
from tests.benchmarks.papers.study import CUDA, Federation, Outcome, PaperTable, Row, Runs, Scale
from tests.benchmarks.result import Claim, Findings, Table

NUM_ROUNDS = 10

PAPER = {
    "0.1": {2: (16.673, 40.106), 3: (7.626, 44.693), 10: (2.262, 53.056)},
    "0.4": {2: (17.227, 39.785), 3: (6.987, 44.571), 10: (2.241, 52.454)},
    "0.7": {2: (16.328, 40.558), 3: (7.215, 45.525), 10: (2.305, 54.133)},
    "1.0": {2: (14.244, 40.731), 3: (6.431, 43.939), 10: (2.280, 52.811)},
}
"""Distances within and between classes, by the parameter of Dirichlet's distribution and the round."""

ABOUT = (
    f"{NUM_ROUNDS} rounds. Distances here are between the generator's own features, 32 wide, so only ratios compare. "
    "Why the paper's is ten times as large in the last round is not known: it draws features on a plane by t-SNE, "
    "which sets clusters apart, but does not say whether its distances are those on the plane. None is projected here."
)


def table(scale: Scale) -> PaperTable:
    """Return the paper's setting; both scales have one seed."""
    rows = [Row(f"Dirichlet {alpha}", ["method.name=fedpa", f"data.alpha={alpha}"]) for alpha in PAPER]
    settings = (*fedpa.SETTINGS, f"run.num_rounds={NUM_ROUNDS}", *(CUDA if scale == "gpu" else ()))
    return PaperTable([fedpa.ABOUT, ABOUT], [Federation("MNIST", MNIST, settings, rows, more=_distances)], measures=())


def _distances(outcomes: Sequence[Outcome], runs: Runs) -> Findings:
    """Find the distances of the rounds that the paper has, and whether classes draw apart."""
    header = ["", "round", "within", "between", "ratio", "paper's within", "between", "ratio"]
    lines, claims = [], []
    for outcome, paper in zip(outcomes, PAPER.values(), strict=True):
        told = [(each["intra_class_distance"], each["inter_class_distance"]) for each in runs.metrics(outcome.runs[0])]
        for round in (1, *paper):
            papers = _cells(*paper[round]) if round in paper else [""] * 3
            lines.append([outcome.row.name, str(round), *_cells(*told[round - 1]), *papers])
        ratios = [between / within for within, between in told]
        apart = f"{outcome.row.name}: classes are further apart in round {NUM_ROUNDS} than in round 1"
        claims.append(Claim(apart, ratios[-1] > ratios[0], f"ratios {ratios[0]:.2f}, {ratios[-1]:.2f}"))
    table = Table("Distances of generated features", header, lines, "Seed 0 alone. The paper does not have round 1.")
    return Findings(tables=[table], claims=claims)


def _cells(within: float, between: float) -> list[str]:
    return [f"{within:.3f}", f"{between:.3f}", f"{between / within:.2f}"]
