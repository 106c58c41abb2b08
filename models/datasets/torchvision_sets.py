"""torchvision's own data sets, as they lie in `[data] root`; fetched only where `[data] download` says so."""

from __future__ import annotations

import fcntl
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from models.data import Dataset, UnreadableSampleError, dataset_classes
from models.datasets.pixels import image_array
from models.datasets.torchvision_names import TORCHVISION, Source
from models.spec import ConfigError, DataConfig, missing_package

_LABELS = ("targets", "labels", "_labels", "y")
_MAX_DOWNLOAD_S = 3600.0


class TorchvisionImages:
    """Pillow images of torchvision data sets, end to end, read in one shape."""

    def __init__(self, parts: Sequence[Any], channels: int, size: int) -> None:
        self.shape = (channels, size, size)
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        """Return how many images there are."""
        return int(self._ends[-1])

    def read(self, row: int) -> np.ndarray:
        """Return one image, float32 0..1 of `shape`."""
        index = int(np.searchsorted(self._ends, row, side="right"))
        part = self._parts[index]
        try:
            return image_array(part[row - int(self._ends[index]) + len(part)][0], *self.shape[:2])
        except (OSError, SyntaxError, ValueError) as error:
            raise UnreadableSampleError(f"{type(part).__name__} {row}: {error}") from None


def load(config: DataConfig) -> Dataset:
    """Return train and test part end to end: arrays where torchvision holds them so, else images read one by one."""
    source = TORCHVISION[config.dataset]
    parts = [_open(source, part, config) for part in source.parts]
    y = np.concatenate([_labels(part) for part in parts]) - source.first_label
    x: Any = TorchvisionImages(parts, config.channels, config.image_size)
    arrays = [_pixels(part) for part in parts]
    if all(array is not None for array in arrays):
        x = np.concatenate([array for array in arrays if array is not None])
    test_from = len(parts[0]) if len(parts) > 1 else None
    return Dataset(x, y, dataset_classes(config), test_from, official=test_from is not None)


def classes(config: DataConfig) -> list[str]:
    """Return torchvision's names of the classes where they are few, else their numbers."""
    return list(TORCHVISION[config.dataset].classes)


def _open(source: Source, part: Mapping[str, Any], config: DataConfig) -> Any:
    root = Path(config.root or ".").expanduser()
    name = f"[data] dataset = {config.dataset!r}"
    try:
        from torchvision import datasets
    except ImportError:
        raise missing_package(f"{name} needs", "torchvision", "train") from None
    kind = getattr(datasets, source.kind, None)
    if kind is None:
        raise ConfigError(f"{name}: the installed torchvision has no {source.kind}")
    known = inspect.signature(kind).parameters
    can_download = "download" in known or source.kind == "EMNIST"
    if config.download and not can_download:
        raise ConfigError(f"{name}: torchvision cannot download it; put its files below {root.resolve()}")
    try:
        if not config.download:
            return kind(root=root, **part)
        with _alone(root):
            return kind(root=root, **part, download=True)
    except ConfigError:
        raise
    except Exception as error:
        hint = "set [data] root to where its files are" + (", or download = true" if can_download else "")
        raise ConfigError(f"{name}: looked in {root.resolve()}: {type(error).__name__}: {error}; {hint}") from error


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Let one process at a time download into a folder."""
    root.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + _MAX_DOWNLOAD_S
    with (root / ".download.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(
                        f"[data] {root}: another process has been downloading into it for an hour"
                    ) from None
                time.sleep(0.2)
        yield


def _labels(part: Any) -> np.ndarray:
    for name in _LABELS:
        if hasattr(part, name):
            return np.asarray(getattr(part, name)).astype(np.int64)
    if hasattr(part, "_samples"):
        return np.array([label for _, label in part._samples], np.int64)
    return np.array([part[row][1] for row in range(len(part))], np.int64)


def _pixels(part: Any) -> np.ndarray | None:
    """Return the images where all lie in one array, uint8 [N, H, W] or [N, C, H, W]."""
    data = getattr(part, "data", None)
    if data is None or not hasattr(data, "dtype"):
        return None
    pixels = np.asarray(data)
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        return None
    is_channels_last = pixels.ndim == 4 and pixels.shape[-1] == 3 and pixels.shape[1] != 3
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)) if is_channels_last else pixels
