"""What a client is when a run is over: its state, and what it takes to make its model of that again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from models.checkpoint import CheckpointError, read, write
from models.spec import ConfigError, RunSpec, read_spec

_FILE = "final.safetensors"


class FinalModel(NamedTuple):
    """The run as this client took part in it, the digests of its constants, and the client half's state."""

    spec: RunSpec
    constants: list[str]
    arrays: dict[str, np.ndarray]


def keep_final(folder: Path, spec: RunSpec, constants: Sequence[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Keep a client's model in its folder, in place of an earlier run's."""
    texts = {"spec": msgspec.json.encode(spec).decode(), "constants": json.dumps(list(constants))}
    write(folder / _FILE, arrays, texts)


def load_final(folder: Path) -> FinalModel:
    """Return the model that `keep_final` kept last.

    Raises:
        ConfigError: there is none, or it is broken.
    """
    try:
        arrays, texts = read(folder / _FILE)
        spec, constants = msgspec.json.decode(texts["spec"]), msgspec.json.decode(texts["constants"], type=list[str])
    except CheckpointError as error:
        raise ConfigError(f"no model of a finished run: {error}") from None
    except (KeyError, ValueError, RecursionError) as error:
        raise ConfigError(f"no model of a finished run: {folder / _FILE}: expected what a run left: {error}") from None
    return FinalModel(read_spec(spec), constants, arrays)
