"""Image files in a folder for each class, also below `train/` and `test/`; read when a client takes its part.

Which rows there are follows from the folder alone, so it is the same in every process; a file that turns out to be
broken is left out by the client that holds it, counted and named.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.data import Dataset, UnreadableSampleError, list_faults
from models.datasets.pixels import read_image, require_pillow
from models.label_map import refusal_of_class
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
            raise UnreadableSampleError(f"{shown(path)}: {error}") from None


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
        for folder in class_folders(part):
            found, skipped = list_images(folder)
            paths += found
            labels += [_label(folder, names)] * len(found)
            junk += skipped
        ends.append(len(paths))
    test_from = ends[0] if len(ends) == 2 and 0 < ends[0] < ends[1] else None
    notes = [list_faults(f"{len(paths) + len(junk)} entries in {root} are no images", junk)] if junk else []
    files = ImageFiles(paths, config.channels, config.image_size)
    return Dataset(files, np.array(labels, np.int64), names, test_from, test_from is not None, notes)


def classes(config: DataConfig) -> list[str]:
    """Return the folders' names in order; empty ones count."""
    root = _root(config)
    names = sorted({class_name(folder) for part in _parts(root) for folder in class_folders(part)})
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


def class_folders(part: Path) -> list[Path]:
    """Return the folders below this one that stand for classes: all but hidden ones and `__pycache__` and the like."""
    return sorted(path for path in part.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))


def list_images(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the images of a folder and of all below it by name, and what else lies there, in words."""
    images = []
    paths, junk = files_below(folder)
    for path in paths:
        try:
            fault = _fault(path, folder)
        except OSError as error:  # it is gone by now, or may not be looked at
            fault = str(error.strerror)
        if fault:
            junk.append(f"{shown(path)}: {fault}")
        else:
            images.append(path)
    return images, junk


def files_below(folder: Path) -> tuple[list[Path], list[str]]:
    """Return all that lies in a folder and in those below it but folders, by name, and which are not looked into.

    These are folders that may not be read, and links to folders, as one may lead back to where it stands.
    """
    passed_by: list[str] = []

    def on_error(error: OSError) -> None:
        passed_by.append(f"{shown(Path(error.filename))}: {error.strerror}")

    paths = []
    for top, folders, names in os.walk(folder, onerror=on_error):
        paths += [Path(top, name) for name in names]
        links = (Path(top, name) for name in folders if os.path.islink(os.path.join(top, name)))
        passed_by += [f"{shown(link)}: a link to a folder, which is not followed" for link in links]
    return sorted(paths), passed_by


def _fault(path: Path, folder: Path) -> str:
    """Say what shows from outside that a file is no image; nothing if nothing does."""
    hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
    if hidden or path.suffix.lower() not in SUFFIXES:
        return "not an image by its name"
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "no file"
    return "" if status.st_size else "empty"


def shown(path: Path) -> str:
    """Return a path as it can be printed and sent: bytes of its name that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def label_of(folder: Path, names: Sequence[str]) -> int | None:
    """Return the id of the class that a folder is named for, None if the label map has no such class.

    An accent is the same as a letter of its own or as a mark behind one.
    """
    name, known = _normal(class_name(folder)), [_normal(each) for each in names]
    return known.index(name) if name in known else None


def class_name(folder: Path) -> str:
    """Return the class that a folder is named for; names are UTF-8, whatever the locale."""
    return shown(Path(folder.name))


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _label(folder: Path, names: Sequence[str]) -> int:
    label = label_of(folder, names)
    if label is None:
        raise ConfigError(f"{shown(folder)}: {refusal_of_class(class_name(folder), names)}")
    return label
