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
    arrays = _read(config, ("x", "y"))
    names = list(config.classes) or _names(arrays) or _numbered(arrays["y"])
    return Dataset(arrays["x"], arrays["y"], names, _test_from(arrays))


def classes(config: DataConfig) -> list[str]:
    """Return the file's own names, or 0..max(y).

    Labels with gaps are refused where there are no names: a gap is more often a mistake than an absent class.
    """
    arrays = _read(config, ("y",))
    return _names(arrays) or _numbered(arrays["y"])


def own_names(config: DataConfig) -> list[str]:
    """Return the names of the ids that the file itself gives; none if it has none."""
    return _names(_read(config, ()))


def read_arrays(path: Path, hint: str) -> dict[str, np.ndarray]:
    """Return all arrays of a numpy .npz file.

    Raises:
        ConfigError: there is no such file (the text ends in `hint`), or it is something else.
    """
    return _read_file(path, None, hint)


def _names(arrays: Mapping[str, np.ndarray]) -> list[str]:
    came = arrays.get("classes", np.empty(0, np.str_))
    if came.ndim != 1 or came.dtype.kind != "U":
        raise ConfigError(f"[data] classes must be texts [N], got {came.dtype} {list(came.shape)}")
    return [str(name) for name in came]


def _numbered(y: np.ndarray) -> list[str]:
    labels = whole_labels(y, None)
    if not len(labels):
        raise ConfigError("[data] y is empty: name the classes in [data] classes, or give samples")
    present = np.unique(labels)
    if len(present) <= present[-1]:
        gap = int(np.argmax(present != np.arange(len(present))))
        raise ConfigError(
            f"[data] y has labels {_listed(present)}, none is {gap}: expected every id from 0 on; number them anew, "
            "or name all classes in [data] classes if some have no samples here"
        )
    return [str(label) for label in present]


def _listed(present: np.ndarray) -> str:
    return ", ".join(map(str, present[:10])) + (f" .. {present[-1]}" if len(present) > 10 else "")


def _read(config: DataConfig, needed: tuple[str, ...]) -> Mapping[str, np.ndarray]:
    """Read the needed arrays of the file that `[data] root` names, and what else is known of those that are there."""
    path = Path(config.root or ".").expanduser()
    path = path / "data.npz" if path.is_dir() or not config.root else path
    hint = (
        "set [data] root to a file written by numpy.savez(path, x=..., y=...), or to a folder that holds it as data.npz"
    )
    return _read_file(path, needed, hint)


_OPTIONAL = ("classes", "test_from")


def _read_file(path: Path, needed: tuple[str, ...] | None, hint: str) -> dict[str, np.ndarray]:
    from zipfile import BadZipFile  # numpy needs it here, a daemon whose data set is another one does not
    from zlib import error as ZlibError

    if not path.is_file():
        raise ConfigError(f"[data] no file {path}; {hint}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            wanted = archive.files if needed is None else needed
            if any(name not in archive for name in wanted):
                raise ConfigError(f"{path}: expected arrays {', '.join(wanted)}, got {', '.join(archive.files)}")
            return {name: archive[name] for name in dict.fromkeys((*wanted, *_OPTIONAL)) if name in archive}
    except (OSError, ValueError, TypeError, AttributeError, EOFError, BadZipFile, ZlibError) as error:
        raise ConfigError(f"{path}: expected a numpy .npz file of plain arrays: {error}") from None


def _test_from(arrays: Mapping[str, np.ndarray]) -> int | None:
    if "test_from" not in arrays:
        return None
    came = arrays["test_from"]
    if came.size != 1 or came.dtype.kind not in "ui":
        raise ConfigError(f"[data] test_from must be a row number, got {came.tolist()}")
    return int(came.item())
