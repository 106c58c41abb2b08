"""The arrays `x` and `y` of a numpy file, if wanted with `classes`, the names of the ids, and `test_from`.

From row `test_from` on there is the global test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from models.data import Dataset, whole_labels
from models.spec import ConfigError, DataConfig


def load(config: DataConfig) -> Dataset:
    """Return the file's arrays."""
    path, arrays = _read(config, ("x", "y"))
    names = list(config.classes) or _names(arrays, path) or _numbered(arrays["y"], path)
    return Dataset(arrays["x"], arrays["y"], names, _test_from(arrays, path), origin=str(path))


def classes(config: DataConfig) -> list[str]:
    """Return the file's own names, or 0..max(y).

    Labels with gaps are refused where there are no names: a gap is more often a mistake than an absent class.
    """
    path, arrays = _read(config, ("y",))
    names = _names(arrays, path) or _numbered(arrays["y"], path)
    whole_labels(arrays["y"], names, f"{path}:")
    return names


def own_names(config: DataConfig) -> list[str]:
    """Return the names of the ids that the file itself gives; none if it has none."""
    path, arrays = _read(config, ())
    return _names(arrays, path)


def read_arrays(path: Path, hint: str) -> dict[str, np.ndarray]:
    """Return all arrays of a numpy .npz file.

    Raises:
        ConfigError: there is no such file (the text ends in `hint`), or it is something else.
    """
    return _read_file(path, None, hint)


def _names(arrays: Mapping[str, np.ndarray], path: Path) -> list[str]:
    came = arrays.get("classes", np.empty(0, np.str_))
    if came.ndim != 1 or came.dtype.kind != "U":
        raise ConfigError(f"{path}: classes must be texts [N], got {came.dtype} {list(came.shape)}")
    return [str(name) for name in came]


def _numbered(y: np.ndarray, path: Path) -> list[str]:
    labels = whole_labels(y, None, f"{path}:")
    if not len(labels):
        raise ConfigError(f"{path}: y is empty: name the classes in [data] classes, or give samples")
    present = np.unique(labels)
    if len(present) <= present[-1]:
        gap = int(np.argmax(present != np.arange(len(present))))
        raise ConfigError(
            f"{path}: y has labels {_listed(present)}, none is {gap}: expected every id from 0 on; number them anew, "
            "or name all classes in [data] classes if some have no samples here"
        )
    return [str(label) for label in present]


def _listed(present: np.ndarray) -> str:
    return ", ".join(map(str, present[:10])) + (f" .. {present[-1]}" if len(present) > 10 else "")


def _read(config: DataConfig, needed: tuple[str, ...]) -> tuple[Path, Mapping[str, np.ndarray]]:
    """Return the file that `[data] root` names, its needed arrays, and what else is known of those that are there."""
    path = Path(config.root or ".").expanduser()
    path = path / "data.npz" if path.is_dir() or not config.root else path
    hint = (
        "set [data] root to a file written by numpy.savez(path, x=..., y=...), or to a folder that holds it as data.npz"
    )
    return path, _read_file(path, needed, hint)


_OPTIONAL = ("classes", "test_from")

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""What a .npz file begins with: a zip archive's first entry, or the end of one that has none."""


def _read_file(path: Path, needed: tuple[str, ...] | None, hint: str) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise ConfigError(f"[data] no file {path}; {hint}")
    try:
        with path.open("rb") as file:
            if file.read(4) not in _ZIP:
                raise ValueError("it is no zip archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                wanted = archive.files if needed is None else needed
                if any(name not in archive for name in wanted):
                    came = ", ".join(archive.files) or "none"
                    raise ConfigError(f"{path}: expected arrays {', '.join(wanted)}, got {came}")
                return {name: _array(archive, name) for name in dict.fromkeys((*wanted, *_OPTIONAL)) if name in archive}
    except ConfigError:
        raise
    except Exception as error:  # whatever a damaged file makes of its reading
        raise ConfigError(f"{path}: expected a numpy .npz file of plain arrays: {error}") from None


def _array(archive: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    try:
        array = archive[name]
    except ValueError as error:
        raise ValueError(f"{name} holds Python objects" if "pickle" in str(error) else f"{name}: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is no array")
    return array


def _test_from(arrays: Mapping[str, np.ndarray], path: Path) -> int | None:
    if "test_from" not in arrays:
        return None
    came = arrays["test_from"]
    if came.size != 1 or came.dtype.kind not in "ui":
        raise ConfigError(f"{path}: test_from must be a row number, got {came.tolist()}")
    return int(came.item())
