"""The device's keys: its own, in a file, and the coordinator's, in `client.toml`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from edge_client.config import ClientConfig
from edge_client.local_state import client_folder
from models.spec import ConfigError
from wire.sockets.keys import KEY_FORM, KeyFileError, KeyPair, is_key, keep_secret, pair_of, read_secret

SECRET_FILE = "client.secret"


class Keys(NamedTuple):
    """What an encrypted connection needs: this device's pair, and the public key of its coordinator."""

    own: KeyPair
    coordinator: str


def load_keys(config: ClientConfig, allow_open: bool, from_stdin: bool) -> Keys | None:
    """Return the keys, None if the connection is not to be encrypted.

    Raises:
        ConfigError: one is missing, or cannot be used.
    """
    if config.coordinator.security == "none":
        return None
    if not config.coordinator.public_key:
        expected = "expected the coordinator's, which `coordinator keys init` prints there"
        raise ConfigError(f"[coordinator]: public_key is missing: {expected}")
    own = _from_stdin() if from_stdin else _from_file(config, allow_open)
    return Keys(own, config.coordinator.public_key)


def init(config: ClientConfig, allow_open: bool = False) -> str:
    """Make this device's keys unless it has some; return the command that enrolls it.

    Raises:
        ConfigError: those that are there cannot be used, or none can be made.
    """
    try:
        own = keep_secret(_path(config), allow_open)
    except KeyFileError as error:
        raise ConfigError(str(error)) from error
    return f"coordinator keys enroll {config.client.id} {own.public}"


def _path(config: ClientConfig) -> Path:
    return Path(config.client.key).expanduser() if config.client.key else client_folder(config) / SECRET_FILE


def _from_file(config: ClientConfig, allow_open: bool) -> KeyPair:
    path = _path(config)
    try:
        return read_secret(path, allow_open)
    except FileNotFoundError:
        raise ConfigError(f"{path}: expected this device's key, which `edge-client keys init` makes") from None
    except KeyFileError as error:
        raise ConfigError(str(error)) from None


def _from_stdin() -> KeyPair:
    secret = sys.stdin.read(256).strip()
    if not is_key(secret):
        raise ConfigError(f"standard input: expected a secret key, {KEY_FORM}")
    return pair_of(secret)
