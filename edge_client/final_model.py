"""What a client is when a run is over: its state, and what it takes to make its model of that again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edge_client.leftovers import run_folder, runs_left
from models.checkpoint import CheckpointError, read, write
from models.spec import ConfigError, RunSpec, read_spec

_FILE = "final.safetensors"


class FinalModel(NamedTuple):
    """The run as this client took part in it, the digests and names of its constants, and the client half's state."""

    spec: RunSpec
    constants: list[str]
    arrays: dict[str, np.ndarray]
    names: list[str]


def keep_final(
    folder: Path, spec: RunSpec, constants: Sequence[str], arrays: Mapping[str, np.ndarray], names: Sequence[str] = ()
) -> None:
    """Keep a client's model with what the run left, and in the client's folder in place of an earlier run's."""
    of_constants = {"constants": json.dumps(list(constants)), "names": json.dumps(list(names))}
    texts = {"spec": msgspec.json.encode(spec).decode(), **of_constants}
    for place in (run_folder(folder, spec.run_id), folder):
        place.mkdir(parents=True, exist_ok=True)
        write(place / _FILE, arrays, texts)


def load_final(folder: Path, run_id: str = "") -> FinalModel:
    """Return the model that `keep_final` kept of a run, by default the one that it kept last.

    Raises:
        ConfigError: there is none, or it is broken.
    """
    kept = {path.name: path / _FILE for path in runs_left(folder) if (path / _FILE).exists()}
    final = _read(kept.get(run_id, folder / _FILE))
    if run_id not in ("", final.spec.run_id):
        known = ", ".join(sorted({*kept, final.spec.run_id}))
        raise ConfigError(f"--run {run_id}: expected a run that this client has finished and still keeps: {known}")
    return final


def unfinished_since(folder: Path) -> list[str]:
    """Return the ids of the runs that this client has begun since the last one that it has finished, oldest first."""
    finished_at = (folder / _FILE).stat().st_mtime
    begun = ((path.stat().st_mtime, path) for path in runs_left(folder) if not (path / _FILE).exists())
    return [path.name for changed_at, path in sorted(begun) if changed_at > finished_at]


def _read(path: Path) -> FinalModel:
    try:
        arrays, texts = read(path)
        spec, constants = msgspec.json.decode(texts["spec"]), msgspec.json.decode(texts["constants"], type=list[str])
        names = msgspec.json.decode(texts.get("names", "[]"), type=list[str])
    except CheckpointError as error:
        raise ConfigError(f"no model of a finished run: {error}") from None
    except (KeyError, ValueError, RecursionError) as error:
        raise ConfigError(f"no model of a finished run: {path}: expected what a run left: {error}") from None
    return FinalModel(read_spec(spec), constants, arrays, names)
