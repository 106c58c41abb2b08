"""Which frozen backbone a run has: its digest is a run constant, and a client with another one is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.checkpoint import state_hash
from models.nets import is_frozen
from models.nets.vit_weights import read_backbone
from models.spec import ConfigError, ModelConfig

Constants = Mapping[str, Mapping[str, np.ndarray]]

_NAME, _KEY = "backbone", "sha256"

_DIGESTS_KEPT = 16

_PIECE_BYTES = 1 << 16
"""How much of a file is in memory while it is hashed."""


def constants_of(model: ModelConfig) -> Constants:
    """Return the digest of the file that `[model] path` names as a run constant; none where no net of the run has one.

    Raises:
        ConfigError: the file cannot be read.
    """
    return constant(file_digest(model.path)) if _has_file(model) else {}


def check_file(model: ModelConfig) -> None:
    """Refuse a run whose frozen backbone has no file here.

    Raises:
        ConfigError: as the summary says.
    """
    if _has_file(model) and not Path(model.path).expanduser().is_file():
        raise ConfigError(f"[model] path = {model.path!r}: expected the ONNX file of a backbone, found no file there")


def constant(digest: str) -> Constants:
    """Return a digest as a run constant; an empty one stands for a backbone that the run's seed makes."""
    return {_NAME: {_KEY: np.frombuffer(bytes.fromhex(digest), np.uint8)}}


def check_backbone(client: str, constants: Constants, came: str, key: str) -> None:
    """Refuse a backbone of another digest than the run's, if that has one.

    Args:
        client: whose it is.
        constants: those of the run.
        came: the digest of the client's own.
        key: the setting that names its file.

    Raises:
        ConfigError: as the summary says.
    """
    wanted = constants.get(_NAME, {}).get(_KEY, np.zeros(0, np.uint8)).tobytes().hex()
    if wanted and came != wanted:
        raise ConfigError(
            f"client {client}: expected the run's frozen backbone of digest {wanted[:12]}, the file of {key} has "
            f"{came[:12]}; use the coordinator's file"
        )


def weights_digest(path: str) -> str:
    """Return the hash of what `[model] weights` holds beside a head, "" without a file; read anew when it changes.

    Raises:
        ConfigError: it cannot be read.
    """
    return _hash_of_weights(_stamp(Path(path))) if path else ""


def file_digest(path: str) -> str:
    """Return the sha256 of an ONNX file and, where it keeps its weights in `<name>.data` beside it, of that one too.

    It is read anew when it changes.

    Raises:
        ConfigError: it cannot be read; the text says where it was looked for.
    """
    file = _stamp(Path(path))
    weights = Path(f"{file.path}.data")
    try:
        return _sha256(file, *([_stamp(weights)] if weights.exists() else []))
    except OSError as error:
        told = f"got {file.path.resolve()}: {error.strerror}"
        raise ConfigError(f"[model] path = {path!r}: expected the ONNX file of a backbone, {told}") from None


class _Stamp(NamedTuple):
    """A file, and what changes when it does; both 0 for one that who reads it will have to refuse."""

    path: Path
    size: int
    mtime_ns: int


def _stamp(path: Path) -> _Stamp:
    file = path.expanduser().absolute()
    try:
        known = file.stat()
    except OSError:
        return _Stamp(file, 0, 0)
    return _Stamp(file, known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=_DIGESTS_KEPT)
def _hash_of_weights(stamp: _Stamp) -> str:
    return state_hash(read_backbone(stamp.path))


@lru_cache(maxsize=_DIGESTS_KEPT)
def _sha256(*stamps: _Stamp) -> str:
    digest = hashlib.sha256()
    for stamp in stamps:
        with stamp.path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
    return digest.hexdigest()


def _has_file(model: ModelConfig) -> bool:
    return any(map(is_frozen, model.names or [model.name]))
