"""RefProtoFL in its paper's setting, ResNet18 with group norm on all of Fashion-MNIST; it needs a GPU."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.papers.refprotofl import COMMON, DATA, compare, fashion_mnist

SETTINGS = (
    "data.dataset=fashion-mnist",
    f"data.root={DATA}",
    "data.pool=train",
    "model.name=resnet18",
    "model.norm=group",
    "model.feature_dim=512",
    "training.device=cuda",
)


def run(out: Path, full: bool) -> list[Figure]:
    """Return the accuracies of all rows, with one seed or in full three.

    Raises:
        Skipped: there is no GPU, or no Fashion-MNIST.
    """
    import torch

    if not torch.cuda.is_available():
        raise Skipped("torch sees no GPU here")
    fashion_mnist()
    return compare(range(3 if full else 1), (*COMMON, *SETTINGS), out)
