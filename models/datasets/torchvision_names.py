"""torchvision's data sets of one label per image: how each is opened, and its label map, known without torchvision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Source(NamedTuple):
    """How torchvision opens a data set."""

    kind: str
    """The class in `torchvision.datasets`."""
    parts: Sequence[Mapping[str, Any]]
    """Arguments for the train part and, where it has one, the test part."""
    classes: Sequence[str]
    """The label map."""
    first_label: int = 0


_BY_TRAIN = ({"train": True}, {"train": False})
_BY_SPLIT = ({"split": "train"}, {"split": "test"})
_TRAIN_VAL = ({"split": "train"}, {"split": "val"})
_TRAINVAL_TEST = ({"split": "trainval"}, {"split": "test"})
_WHOLE: Sequence[Mapping[str, Any]] = ({},)

_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")


def _numbered(num_classes: int) -> tuple[str, ...]:
    return tuple(map(str, range(num_classes)))


def _emnist(split: str, classes: Sequence[str], first_label: int = 0) -> Source:
    parts = tuple({"split": split, **part} for part in _BY_TRAIN)
    return Source("EMNIST", parts, classes, first_label)


TORCHVISION: dict[str, Source] = {
    "CIFAR10": Source("CIFAR10", _BY_TRAIN, _CIFAR10),
    "CIFAR100": Source("CIFAR100", _BY_TRAIN, _numbered(100)),
    "MNIST": Source("MNIST", _BY_TRAIN, _numbered(10)),
    "FashionMNIST": Source("FashionMNIST", _BY_TRAIN, _FASHION),
    "KMNIST": Source("KMNIST", _BY_TRAIN, _numbered(10)),
    "EMNIST-balanced": _emnist("balanced", _numbered(47)),
    "EMNIST-byclass": _emnist("byclass", _numbered(62)),
    "EMNIST-bymerge": _emnist("bymerge", _numbered(47)),
    "EMNIST-digits": _emnist("digits", _numbered(10)),
    "EMNIST-letters": _emnist("letters", _LETTERS, first_label=1),
    "EMNIST-mnist": _emnist("mnist", _numbered(10)),
    "USPS": Source("USPS", _BY_TRAIN, _numbered(10)),
    "SVHN": Source("SVHN", _BY_SPLIT, _numbered(10)),
    "STL10": Source("STL10", _BY_SPLIT, _STL10),
    "GTSRB": Source("GTSRB", _BY_SPLIT, _numbered(43)),
    "Flowers102": Source("Flowers102", _BY_SPLIT, _numbered(102)),
    "Food101": Source("Food101", _BY_SPLIT, _numbered(101)),
    "DTD": Source("DTD", _BY_SPLIT, _numbered(47)),
    "Country211": Source("Country211", _BY_SPLIT, _numbered(211)),
    "FGVCAircraft": Source("FGVCAircraft", _TRAINVAL_TEST, _numbered(100)),
    "OxfordIIITPet": Source("OxfordIIITPet", _TRAINVAL_TEST, _numbered(37)),
    "PCAM": Source("PCAM", _BY_SPLIT, _numbered(2)),
    "RenderedSST2": Source("RenderedSST2", _BY_SPLIT, _numbered(2)),
    "StanfordCars": Source("StanfordCars", _BY_SPLIT, _numbered(196)),
    "Imagenette": Source("Imagenette", _TRAIN_VAL, _numbered(10)),
    "ImageNet": Source("ImageNet", _TRAIN_VAL, _numbered(1000)),
    "EuroSAT": Source("EuroSAT", _WHOLE, _numbered(10)),
    "SEMEION": Source("SEMEION", _WHOLE, _numbered(10)),
    "SUN397": Source("SUN397", _WHOLE, _numbered(397)),
    "Caltech101": Source("Caltech101", _WHOLE, _numbered(101)),
    "Caltech256": Source("Caltech256", _WHOLE, _numbered(257)),
}
"""By the name that stands in `[data] dataset`; that of the class, and EMNIST's with its split."""
