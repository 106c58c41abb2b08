"""How far apart FedPA's generated features lie, within a class and between classes, round by round on MNIST.

The paper's figures are EMNIST's, measured on a plane that features were projected to, so their ratio alone compares;
the setting is that of the study `fedpa`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coordinator.config import load
from models.methods.fedpa import Config
from models.methods.fedpa.generator_training import GeneratorTraining
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.papers import fedpa
from tests.integration.processes import booked

NUM_ROUNDS = 10

PAPER = {
    0.1: {0: (27.898, 27.351), 2: (16.673, 40.106), 3: (7.626, 44.693), 10: (2.262, 53.056)},
    0.4: {0: (27.898, 27.351), 2: (17.227, 39.785), 3: (6.987, 44.571), 10: (2.241, 52.454)},
    0.7: {0: (27.898, 27.351), 2: (16.328, 40.558), 3: (7.215, 45.525), 10: (2.305, 54.133)},
    1.0: {0: (27.898, 27.351), 2: (14.244, 40.731), 3: (6.431, 43.939), 10: (2.280, 52.811)},
}
"""Distances within and between classes, by alpha and round; in round 0 the generator is untrained."""


def run(out: Path, full: bool) -> list[Figure]:
    """Print the distances of each round; `--full` changes nothing.

    Raises:
        Skipped: the file of MNIST is not there.
    """
    data, figures = fedpa.mnist(out), []
    print(f"{'alpha':>5s} {'round':>5s}  {'within':>7s} {'between':>7s} {'ratio':>5s}  paper: within, between, ratio")
    for alpha, paper in PAPER.items():
        settings = [*data, *fedpa.SETTINGS, "method.name=fedpa", f"data.alpha={alpha}", f"run.num_rounds={NUM_ROUNDS}"]
        for round, (intra, inter) in enumerate([_untrained(settings), *_trained(settings, out)]):
            theirs = (
                "{:7.3f} {:7.3f} {:5.2f}".format(*paper[round], np.divide(*paper[round][::-1]))
                if round in paper
                else ""
            )
            print(
                f"{alpha:5} {round:5d}  {intra:7.3f} {inter:7.3f} {inter / intra:5.2f}  {theirs}".rstrip(), flush=True
            )
        figures.append(Figure.of(f"alpha {alpha}: between over within, round {NUM_ROUNDS}", "", [inter / intra]))
    return figures


def _untrained(settings: list[str]) -> tuple[float, float]:
    """Return the distances of features from the generator that a run begins with."""
    spec = load(None, settings).spec("untrained", [str(label) for label in range(10)])
    told = GeneratorTraining(spec, Config()).describe(np.arange(10))
    return told["intra_class_distance"], told["inter_class_distance"]


def _trained(settings: list[str], out: Path) -> list[tuple[float, float]]:
    """Simulate a run and return the distances after each round."""
    folder = job.run(settings, out, command="simulate").folder
    told = [line["metrics"] for line in booked(folder) if line["kind"] == "exchange" and line["metrics"]]
    return [(metrics["intra_class_distance"], metrics["inter_class_distance"]) for metrics in told]
