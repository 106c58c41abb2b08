"""A data set that many processes of one machine read: samples and labels as files that each maps into its memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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
    none = np.zeros(0, np.int64)
    about = msgspec.json.encode({**vars(replace(dataset, x=none, y=none)), "x": None, "y": None})
    (folder / "about.json").write_bytes(about)
    return read_shared(folder)


def read_shared(folder: Path) -> Dataset:
    """Return the data set that `share` wrote; its arrays take no memory of this process's own."""
    about: dict[str, Any] = msgspec.json.decode((folder / "about.json").read_bytes())
    x, y = (np.load(folder / name, mmap_mode="r", allow_pickle=False).view(np.ndarray) for name in ("x.npy", "y.npy"))
    return Dataset(**{**about, "x": x, "y": y})
