"""Rows from a file, such as a published split or the one that another run drew."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.datasets.npz import read_arrays
from models.partition import ClientSplit, Labels, client_array
from models.spec import ConfigError, DataConfig


def indices(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[ClientSplit]:
    """Return the rows of the file `[data] indices`, arrays `clientNN_train` and `clientNN_test` of each client.

    The file numbers the rows as the data set does. Those that are public are left out, and a client's note counts them.

    Raises:
        ConfigError: the file is missing or malformed, is for another number of clients, or has a row twice, outside
            the data set, or of the test set apart in a train part.
    """
    if not config.indices:
        raise ConfigError("[data] partition = 'indices' needs indices = the path of its .npz file")
    path = Path(config.indices).expanduser()
    arrays = read_arrays(path, "set [data] indices to a file of arrays clientNN_train and clientNN_test")
    names = [client_array(index, part) for index in range(config.num_clients) for part in ("train", "test")]
    if set(arrays) != set(names):
        missing, strange = sorted(set(names) - set(arrays)), sorted(set(arrays) - set(names))
        raise ConfigError(
            f"{path}: expected the arrays {names[0]} to {names[-1]} of num_clients = {config.num_clients}; missing: "
            f"{', '.join(missing[:4]) or 'none'}; not expected: {', '.join(strange[:4]) or 'none'}"
        )
    parts = [_checked(path, name, arrays[name], labels) for name in names]
    _require_disjoint(path, names, parts)
    return [_of_remaining(*pair, labels.held_out) for pair in zip(parts[::2], parts[1::2], strict=True)]


def _checked(path: Path, name: str, rows: np.ndarray, labels: Labels) -> np.ndarray:
    if rows.ndim != 1 or (rows.dtype.kind not in "ui" and len(rows)):
        raise ConfigError(f"{path}: {name} must be row numbers [N], got {rows.dtype} {list(rows.shape)}")
    num_all = len(labels.y) + len(labels.held_out)
    end = len(labels.spread) + len(labels.held_out) if name.endswith("_train") else num_all
    outside = (rows < 0) | (rows >= end)
    if outside.any():
        hint = "; the rows behind them are the test set, which [data] pool = 'all' spreads" if end < num_all else ""
        raise ConfigError(f"{path}: {name} has row {rows[outside][0]}, expected 0..{end - 1}{hint}")
    return rows.astype(np.int64)


def _require_disjoint(path: Path, names: list[str], parts: list[np.ndarray]) -> None:
    rows, counts = np.unique(np.concatenate(parts), return_counts=True)
    if counts.max(initial=1) > 1:
        row = rows[counts > 1][0]
        holders = [name for name, part in zip(names, parts, strict=True) if row in part]
        raise ConfigError(f"{path}: row {row} stands in {' and '.join(holders)}: expected each row once at most")


def _of_remaining(train: np.ndarray, test: np.ndarray, held_out: np.ndarray) -> ClientSplit:
    """Return one client's rows without those held out, in the numbering that leaves these out."""
    kept = [rows[~np.isin(rows, held_out)] for rows in (train, test)]
    num_dropped = len(train) + len(test) - sum(map(len, kept))
    note = f"{num_dropped} rows of the file are public and left out" if num_dropped else ""
    new_train, new_test = (rows - np.searchsorted(held_out, rows) for rows in kept)
    return ClientSplit(new_train, new_test, note)
