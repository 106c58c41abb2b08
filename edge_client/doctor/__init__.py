"""`edge-client doctor`: everything about this device that matters to a run, and about its way to the coordinator.

Each finding is one line that can be pasted where help is asked; one that is not well says what to do about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from edge_client.config import ClientConfig
from edge_client.doctor.device import examine_device
from edge_client.doctor.finding import Finding
from edge_client.doctor.settings import examine_settings
from edge_client.doctor.way import examine_way
from edge_client.keys import Keys, load_keys
from edge_client.local_state import client_folder
from models.spec import ConfigError


def examine(config: ClientConfig | None, address: str, allow_open_keys: bool = False) -> Iterator[Finding]:
    """Yield all that is found, in the order in which it should be put right.

    Args:
        config: the client's settings; None looks at the device alone.
        address: the coordinator's `host:port`, "" for none.
        allow_open_keys: whether a key file may be one that others may read.
    """
    yield from examine_device(client_folder(config) if config is not None else Path.cwd())
    keys: Keys | ConfigError | None = None
    if config is not None:
        keys = _loaded(config, allow_open_keys)
        yield from examine_settings(config, keys)
    if address:
        is_configured = config is not None and not isinstance(keys, ConfigError)
        known = None if isinstance(keys, ConfigError) else keys
        client = config.client.id if config is not None else ""
        yield from asyncio.run(examine_way(address, known, client, is_configured))


def _loaded(config: ClientConfig, allow_open_keys: bool) -> Keys | ConfigError | None:
    try:
        return load_keys(config, allow_open_keys, from_stdin=False)
    except ConfigError as error:
        return error
