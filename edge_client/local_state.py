"""What a client has on disk: its folder, and in it the run constants by digest, so that each is sent once.

Beside the states of `models.client_states` there is a record of the samples that the round at hand was begun with, with
noise those of the whole run, so that an attempt that is repeated after a kill has the same ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edge_client.config import ClientConfig
from models.spec import ConfigError
from wire.sockets.keys import OTHERS, KeyFileError, see_barred
from wire.sockets.new_file import write_new

LOCK_WAIT_S = 5.0
"""How long to wait for a process that is about to leave a client's folder, as it does when its daemon has ended."""

_SECRET_BYTES = 32

_DIGEST = re.compile(r"[0-9a-f]{64}")

_SUFFIX = ".safetensors"

_MAX_SHOWN = 80
"""Characters of what came in place of a digest."""


def client_folder(config: ClientConfig) -> Path:
    """Return the folder where this client's state survives a restart."""
    return Path(config.client.dir).expanduser() / config.client.id


def lock_folder(folder: Path, wait_s: float = LOCK_WAIT_S) -> int:
    """Keep other processes from working in a client's folder until this one ends, or closes the returned descriptor.

    Raises:
        ConfigError: another process works there and does not leave within `wait_s` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    give_up_at = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                os.close(descriptor)
                raise ConfigError(f"[client] dir: {folder} is in use by another client of this id") from None
            time.sleep(0.02)


def held_digests(folder: Path) -> list[str]:
    """Return the digests of the run constants in a client's folder, for its hello."""
    files = (folder / "constants").glob(f"*{_SUFFIX}")
    return sorted(path.stem for path in files if _DIGEST.fullmatch(path.stem))


def own_secret(folder: Path) -> bytes:
    """Return the secret that this client's noise follows from, made once; nobody else may be able to read it.

    Raises:
        ConfigError: its file has lost a part, or others may use it.
    """
    path = folder / "noise.secret"
    if not path.exists():
        write_new(path, os.urandom(_SECRET_BYTES))
    try:
        see_barred(path, OTHERS, "a file that its owner alone may use", "chmod 600", exception="")
    except KeyFileError as error:
        raise ConfigError(str(error)) from None
    secret = path.read_bytes()
    if len(secret) != _SECRET_BYTES:
        expected = f"expected {_SECRET_BYTES} bytes, got {len(secret)}: put it back, or remove it: a new one is made"
        raise ConfigError(f"{path}: {expected}")
    return secret


class Acquaintance:
    """Whether the coordinator with this public key has ever let the client of this folder in; "" is nobody's key."""

    def __init__(self, folder: Path, server_key: str) -> None:
        self._path = folder / "let_in_by"
        self._server_key = server_key
        self.was_let_in = self._path.is_file() and self._path.read_bytes() == server_key.encode()

    def let_in(self) -> None:
        """Remember that it has; where that cannot be written, it is learned again."""
        if self._server_key and not self.was_let_in:
            self.was_let_in = True
            with contextlib.suppress(OSError):
                self._path.write_bytes(self._server_key.encode())


class ConstantShelf:
    """The run constants in a client's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "constants"
        self._read: dict[str, tuple[str, Mapping[str, np.ndarray]]] = {}

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Return those digests that are not here; what is here and broken is removed, and so missing.

        What is found whole is kept in memory until `get` takes it, as reading it may take long.

        Raises:
            ConfigError: one is no digest.
        """
        return [digest for digest in digests if not self._is_whole(digest)]

    def put(self, name: str, digest: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a run constant.

        Raises:
            ValueError: the arrays do not have this digest.
        """
        from models.checkpoint import state_hash, write

        found = state_hash(arrays)
        if found != digest:
            raise ValueError(f"run constant {name!r}: expected digest {digest}, got {found}")
        self._folder.mkdir(parents=True, exist_ok=True)
        write(self._path(digest), arrays, {"name": name})

    def get(self, digest: str) -> tuple[str, Mapping[str, np.ndarray]]:
        """Return the arrays of a run constant, and the name that it came with: another run may have another for them.

        Raises:
            ConfigError: it is not here any more, or broken; or this is no digest.
        """
        from models.checkpoint import CheckpointError

        path = self._path(digest)
        try:
            return self._read.pop(digest, None) or self._content(path)
        except CheckpointError as error:
            was_broken = path.exists()
            path.unlink(missing_ok=True)
            why = "it is removed" if was_broken else "[client] keep_days and keep_mib say how long it is kept"
            advice = "a client that is started again is sent it by the next run that needs it"
            raise ConfigError(f"run constant: {error}; {why}; {advice}") from None

    def named(self, digests: Sequence[str], names: Sequence[str]) -> dict[str, Mapping[str, np.ndarray]]:
        """Return run constants by their names in a run; where that tells none, by those that they came with.

        Raises:
            ConfigError: there is not a name for each; or see `get`.
        """
        if names and len(names) != len(digests):
            expected = f"expected the names of {len(digests)} run constants"
            raise ConfigError(f"the coordinator's run: {expected}, got {len(names)}")
        held = [self.get(digest) for digest in digests]
        return dict(zip(names or [name for name, _ in held], [arrays for _, arrays in held], strict=True))

    def _is_whole(self, digest: str) -> bool:
        from models.checkpoint import CheckpointError

        path = self._path(digest)
        try:
            self._read[digest] = self._content(path)
        except CheckpointError:
            path.unlink(missing_ok=True)
            return False
        return True

    def _content(self, path: Path) -> tuple[str, Mapping[str, np.ndarray]]:
        from models.checkpoint import read

        arrays, metadata = read(path)
        return metadata["name"], arrays

    def _path(self, digest: str) -> Path:
        """Return where a run constant is; nothing but a digest becomes part of a path, as the coordinator sent it.

        Raises:
            ConfigError: this is no digest.
        """
        if not _DIGEST.fullmatch(digest):
            expected = "expected 64 hexadecimal digits, in lower case, as the digest of a run constant"
            raise ConfigError(f"the coordinator's run: {expected}, got {digest[:_MAX_SHOWN]!r}")
        return self._folder / f"{digest}{_SUFFIX}"


class SampleFile(NamedTuple):
    """A file that a sample was read from: its class, the digest of its content, and its name for people."""

    class_name: str
    digest: str
    name: str


class RoundSamples(NamedTuple):
    """The samples that a round, or 0 for a whole run, was begun with: a digest, and their files if they have some."""

    round: int
    digest: str
    files: list[SampleFile] | None


class SampleRecord:
    """The record of one run in a client's folder."""

    def __init__(self, folder: Path, run: str) -> None:
        self._path = folder / "round_samples.safetensors"
        self._run = run
        self.held = self._read()

    def put(self, samples: RoundSamples) -> None:
        """Record these samples in the place of others; they are on disk when this returns."""
        from models.checkpoint import write

        write(self._path, {}, {"run": self._run, "samples": msgspec.json.encode(samples).decode()})
        self.held = samples

    def _read(self) -> RoundSamples | None:
        from models.checkpoint import read_metadata

        told = read_metadata(self._path) if self._path.is_file() else {}
        return msgspec.json.decode(told["samples"], type=RoundSamples) if told.get("run") == self._run else None
