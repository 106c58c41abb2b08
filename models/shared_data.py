"""A data set that many processes of one machine read: samples and labels as files that each maps into its memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from models.data import Dataset


def share(dataset: Dataset, folder: Path) -> Dataset | None:
    """Write a data set into a folder and return it as it is read there, None if its samples are files already."""
    if not isinstance(dataset.x, np.ndarray):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", dataset.x, allow_pickle=False)
    np.save(folder / "y.npy", dataset.y, allow_pickle=False)
    (folder / "about.json").write_bytes(about(dataset))
    return read_shared(folder)


def read_shared(folder: Path) -> Dataset:
    """Return the data set that `share` wrote; its arrays take no memory of this process's own."""
    x, y = (np.load(folder / name, mmap_mode="r", allow_pickle=False).view(np.ndarray) for name in ("x.npy", "y.npy"))
    return of_parts((folder / "about.json").read_bytes(), x, y)


def about(dataset: Dataset) -> bytes:
    """Return all that a data set is beside its samples and labels."""
    return msgspec.json.encode({name: part for name, part in vars(dataset).items() if name not in ("x", "y")})


def of_parts(about: bytes, x: np.ndarray, y: np.ndarray) -> Dataset:
    """Return the data set that was taken apart."""
    return Dataset(x, y, **msgspec.json.decode(about))
