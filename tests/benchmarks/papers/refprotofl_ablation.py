"""RefProtoFL, Table 1: APUD and ERPA, each left out."""

from __future__ import annotations

from tests.benchmarks.papers.refprotofl import ABOUT, RESNET, SETTINGS, SMALL_NET, SMALLER, WHOLE
from tests.benchmarks.papers.samples import CIFAR10, SOME_FASHION_MNIST
from tests.benchmarks.papers.study import Federation, PaperTable, Row, Scale

OWN = "method.name=refprotofl"

ROWS = (
    Row("full", (OWN,), 45.51),
    Row("without APUD", (OWN, "method.apud=false"), 45.37),
    Row("without ERPA", (OWN, "method.erpa=false"), 44.62),
    Row("without both", (OWN, "method.apud=false", "method.erpa=false"), 44.54),
)

OTHER_DATA = "The paper's accuracies are CIFAR-10's: only the order compares."

ORDERS = (
    ("full", "without APUD", "without ERPA", "without both"),
    ("full", "without ERPA"),
    ("without APUD", "without both"),
)
"""That of all rows, and ERPA alone, which the paper says has the larger part in it."""


def table(scale: Scale) -> PaperTable:
    """Return CIFAR-10 on ResNet18, or a part of Fashion-MNIST on a small net."""
    if scale == "cpu":
        settings = (*SETTINGS, *SMALL_NET)
        federation = Federation("Fashion-MNIST, Dirichlet 0.5", SOME_FASHION_MNIST, settings, ROWS, ORDERS)
        return PaperTable([ABOUT, SMALLER, OTHER_DATA], [federation])
    settings = (*SETTINGS, "data.pool=train", *RESNET)
    return PaperTable([ABOUT, WHOLE], [Federation("CIFAR-10, Dirichlet 0.5", CIFAR10, settings, ROWS, ORDERS, 3)])
