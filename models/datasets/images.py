"""Image files in a folder for each class, also below `train/` and `test/`; read when a client takes its part.

Which rows there are follows from the folder alone, so it is the same in every process; a file that turns out to be
broken is left out by the client that holds it, counted and named.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.data import Dataset, UnreadableSampleError, list_faults
from models.datasets.pixels import read_image, require_pillow
from models.spec import ConfigError, DataConfig

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}

_LAYOUT = (
    "expected a folder for each class with its images ({root}/cat/1.jpg), or such folders below {root}/train and "
    "{root}/test; set [data] root to it"
)


class ImageFiles:
    """Image files, read in one shape: `channels` of `size` x `size`."""

    def __init__(self, paths: Sequence[Path], channels: int, size: int) -> None:
        self.shape = (channels, size, size)
        self._paths = paths

    def __len__(self) -> int:
        """Return how many files there are."""
        return len(self._paths)

    def read(self, row: int) -> np.ndarray:
        """Return one image, float32 0..1 of `shape`."""
        path = self._paths[row]
        try:
            return read_image(path, *self.shape[:2])
        except ValueError as error:
            raise UnreadableSampleError(f"{path}: {error}") from None


def load(config: DataConfig) -> Dataset:
    """Return the files of all classes: those of `train/` first, those of `test/` as the official test set."""
    require_pillow()
    root = _root(config)
    names = list(config.classes) or classes(config)
    paths: list[Path] = []
    labels: list[int] = []
    ends: list[int] = []
    junk: list[str] = []
    for part in _parts(root):
        for folder in _class_folders(part):
            found, skipped = _list_images(folder)
            paths += found
            labels += [_label(folder, names)] * len(found)
            junk += skipped
        ends.append(len(paths))
    test_from = ends[0] if len(ends) == 2 and 0 < ends[0] < ends[1] else None
    notes = [list_faults(f"{len(paths) + len(junk)} files in {root} are no images", junk)] if junk else []
    files = ImageFiles(paths, config.channels, config.image_size)
    return Dataset(files, np.array(labels, np.int64), names, test_from, test_from is not None, notes)


def classes(config: DataConfig) -> list[str]:
    """Return the folders' names in order; empty ones count."""
    root = _root(config)
    names = sorted({folder.name for part in _parts(root) for folder in _class_folders(part)})
    if not names:
        raise ConfigError(f"[data] dataset = 'images': no class in {root.resolve()}; {_LAYOUT.format(root=root)}")
    return names


def _root(config: DataConfig) -> Path:
    root = Path(config.root or ".").expanduser()
    if not root.is_dir():
        raise ConfigError(f"[data] dataset = 'images': no folder {root}; {_LAYOUT.format(root=root)}")
    return root


def _parts(root: Path) -> list[Path]:
    """Return `train/` and `test/` where the first is there, else the folder itself."""
    if not (root / "train").is_dir():
        return [root]
    return [part for part in (root / "train", root / "test") if part.is_dir()]


def _class_folders(part: Path) -> list[Path]:
    return sorted(path for path in part.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))


def _list_images(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the images of a folder by name, and what else lies there, in words."""
    images, junk = [], []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
        if hidden or path.suffix.lower() not in SUFFIXES:
            junk.append(f"{path}: not an image by its name")
        elif path.stat().st_size == 0:
            junk.append(f"{path}: empty")
        else:
            images.append(path)
    return images, junk


def _label(folder: Path, names: Sequence[str]) -> int:
    if folder.name not in names:
        near = difflib.get_close_matches(folder.name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {list(names[:20])}"
        raise ConfigError(f"{folder}: no class {folder.name!r} in the label map; {hint}")
    return list(names).index(folder.name)
