"""`coordinator loopback`: a coordinator and its clients on this machine, real processes over real TCP."""

from __future__ import annotations

from pathlib import Path

import msgspec

from coordinator.app import run
from coordinator.config import RunConfig
from coordinator.loopback_clients import Clients
from wire.exit_codes import ExitCode

ANY_PORT = "127.0.0.1:0"


def loopback(config: RunConfig, config_folder: Path) -> ExitCode:
    """Run coordinator and clients to the end; the port is any free one."""
    transport = msgspec.structs.replace(config.transport, bind=ANY_PORT)
    config = msgspec.structs.replace(config, transport=transport)
    return run(config, config_folder, "loopback", lambda folder: Clients(config, config_folder, folder))
