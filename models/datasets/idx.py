"""MNIST and Fashion-MNIST: the four IDX files of the official train and test set, plain or gzipped."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from models.data import Dataset, dataset_classes
from models.spec import ConfigError, DataConfig

_CLASSES = {
    "mnist": [str(digit) for digit in range(10)],
    "fashion-mnist": [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ],
}  # fmt: skip

_USUAL_PLACES = {"mnist": ("MNIST/raw",), "fashion-mnist": ("FashionMNIST/raw", "/usr/share/datasets/fashion-mnist")}
"""Where else the files lie: in torchvision's folder below `root`, or where a Debian package puts them."""

_SOURCES = {
    "mnist": "get them from https://github.com/cvdfoundation/mnist, or have torchvision fetch them: "
    "[data] dataset = 'MNIST', download = true",
    "fashion-mnist": "get them from https://github.com/zalandoresearch/fashion-mnist, or install the Debian package "
    "dataset-fashion-mnist",
}

_IMAGES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
_LABELS = ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
_SIDE = 28


def load(config: DataConfig) -> Dataset:
    """Return train and test set end to end, uint8 images of 28 x 28."""
    folder = _find(config)
    images = [read_idx(_present(folder, name), 3) for name in _IMAGES]
    labels = [read_idx(_present(folder, name), 1) for name in _LABELS]
    for name, read, ids in zip(_IMAGES, images, labels, strict=True):
        if read.shape[1:] != (_SIDE, _SIDE):
            raise ConfigError(f"{folder / name}: expected images of {_SIDE} x {_SIDE}, got {list(read.shape[1:])}")
        if len(read) != len(ids):
            raise ConfigError(f"{folder / name}: expected as many images as labels, got {len(read)} and {len(ids)}")
    return Dataset(
        np.concatenate(images), np.concatenate(labels), dataset_classes(config), len(images[0]), official=True
    )


def classes(config: DataConfig) -> list[str]:
    """Return the ten names."""
    return list(_CLASSES[config.dataset])


def read_idx(path: Path, num_dims: int) -> np.ndarray:
    """Return the bytes of an IDX file (gzipped if it ends in .gz), uint8 with `num_dims` dimensions.

    Raises:
        ConfigError: it cannot be unpacked, has another magic number, or not the bytes that its header announces.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: expected a readable IDX file, got {error}") from None
    header_bytes = 4 + 4 * num_dims
    magic = 0x800 + num_dims
    if len(content) < header_bytes:
        raise ConfigError(f"{path}: expected an IDX header of {header_bytes} bytes, the file has {len(content)}")
    came, *shape = struct.unpack(f">{1 + num_dims}I", content[:header_bytes])
    if came != magic:
        raise ConfigError(f"{path}: expected the magic number {magic:#010x} of an IDX file, got {came:#010x}")
    expected = header_bytes + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise ConfigError(f"{path}: its header announces {shape}, {expected} bytes in all; the file has {len(content)}")
    return np.frombuffer(content, np.uint8, offset=header_bytes).reshape(shape)


def _find(config: DataConfig) -> Path:
    """Return the folder that holds all four files."""
    root = Path(config.root or ".").expanduser()
    for folder in (root, *(root / place for place in _USUAL_PLACES[config.dataset])):
        if all(_present(folder, name).is_file() for name in (*_IMAGES, *_LABELS)):
            return folder
    missing = [name for name in (*_IMAGES, *_LABELS) if not _present(root, name).is_file()]
    raise ConfigError(
        f"[data] dataset = {config.dataset!r}: looked in {root.resolve()} and found no {', '.join(missing)} (nor with "
        f".gz); set [data] root to the folder of these files: {_SOURCES[config.dataset]}"
    )


def _present(folder: Path, name: str) -> Path:
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"
