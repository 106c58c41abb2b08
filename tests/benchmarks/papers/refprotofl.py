"""RefProtoFL, Table 2: beside FedAvg, FedProx, FedNova and FedProto."""

from __future__ import annotations

from collections.abc import Mapping

from tests.benchmarks.papers.samples import CIFAR10, FASHION_MNIST, MNIST, SOME_FASHION_MNIST, Samples
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

SETTINGS: tuple[str, ...] = (
    "run.num_rounds=50",
    "data.partition=dirichlet",
    "data.alpha=0.5",
    "data.num_clients=10",
    "data.test_fraction=0",
    "data.public_per_class=20",
    "training.local_epochs=1",
    "training.batch_size=64",
    "training.lr=0.01",
    "training.momentum=0.9",
    "training.weight_decay=1e-4",
    "evaluation.every=10",
    "evaluation.test=global",
)
"""Of the paper's training, whatever the net and the samples."""

SMALL_NET = ("model.name=cnn", "model.feature_dim=128", "training.threads=1")
RESNET = ("model.name=resnet18", "model.norm=group", "model.feature_dim=512", *CUDA)

ABOUT = (
    "As in the paper: 10 clients, 50 rounds of one epoch, batches of 64, SGD with 0.01 and momentum 0.9. Every client "
    "is tested on the same test images with its own backbone and the shared adapter. 20 public samples of each of half "
    "of the classes are left out of training in all rows."
)
SMALLER = (
    "At this scale: 12,000 training and 2,000 test images of Fashion-MNIST, a net of three convolutions, with "
    "batch norm, instead of ResNet18, one seed. The paper's accuracies are for all images and ResNet18. "
    "Backbones that stay with their clients see few images and classes here, which tests on all classes punish."
)
FEWER = "FedProx, FedNova, the other data sets and Dirichlet 100 are left out."
WHOLE = "ResNet18 with group norm, all images, three seeds; the paper says nothing of seeds."

METHODS = {
    "FedAvg": ("method.name=fedavg",),
    "FedProx": ("method.name=fedprox",),
    "FedNova": ("method.name=fednova",),
    "FedProto": ("method.name=fedproto", "evaluation.rule=head"),
    "RefProtoFL": ("method.name=refprotofl",),
}

PAPER = {
    ("MNIST", "0.5"): (88.18, 87.41, 87.87, 87.68, 88.46),
    ("MNIST", "100"): (97.83, 96.90, 97.82, 98.33, 98.25),
    ("Fashion-MNIST", "0.5"): (73.72, 70.84, 73.70, 73.82, 74.21),
    ("Fashion-MNIST", "100"): (85.10, 83.95, 84.91, 85.96, 85.76),
    ("CIFAR-10", "0.5"): (43.93, 42.70, 43.72, 44.33, 45.51),
    ("CIFAR-10", "100"): (52.05, 50.37, 51.73, 56.05, 56.36),
}
"""By data set, parameter of Dirichlet's distribution, and method."""

SAMPLES: Mapping[str, Samples] = {"MNIST": MNIST, "Fashion-MNIST": FASHION_MNIST, "CIFAR-10": CIFAR10}

AT_CPU = ("FedAvg", "FedProto", "RefProtoFL")


def table(scale: Scale) -> PaperTable:
    """Return the paper's setting, or one data set and three methods of it on a small net."""
    if scale == "cpu":
        name, paper = "Fashion-MNIST, Dirichlet 0.5", _paper("Fashion-MNIST", "0.5")
        rows = [Row(method, METHODS[method], paper[method]) for method in AT_CPU]
        orders = [("RefProtoFL", "FedProto", "FedAvg")]
        federation = Federation(name, SOME_FASHION_MNIST, (*SETTINGS, *SMALL_NET), rows, orders)
        return PaperTable([ABOUT, f"{SMALLER} {FEWER}"], [federation])
    return PaperTable([ABOUT, WHOLE], [_whole(data, alpha) for data, alpha in PAPER])


def _whole(data: str, alpha: str) -> Federation:
    paper = _paper(data, alpha)
    rows = [Row(method, settings, paper[method]) for method, settings in METHODS.items()]
    order = sorted(("RefProtoFL", "FedProto", "FedAvg"), key=lambda method: -paper[method])
    settings = (*SETTINGS, f"data.alpha={alpha}", "data.pool=train", *RESNET)
    return Federation(f"{data}, Dirichlet {alpha}", SAMPLES[data], settings, rows, [order], 3)


def _paper(data: str, alpha: str) -> dict[str, float]:
    return dict(zip(METHODS, PAPER[data, alpha], strict=True))
