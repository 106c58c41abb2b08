"""`coordinator loopback`: a coordinator and its clients on this machine, real processes over real TCP."""

from __future__ import annotations

from pathlib import Path

import msgspec

from coordinator.app import coordinate, recorded
from coordinator.config import RunConfig
from coordinator.loopback_clients import Clients
from coordinator.record import RunRecord
from models.spec import RunSpec
from wire.exit_codes import ExitCode

ANY_PORT = "127.0.0.1:0"


def loopback(config: RunConfig, config_folder: Path, init_from: Path | None) -> ExitCode:
    """Run coordinator and clients to the end; the port is any free one."""
    transport = msgspec.structs.replace(config.transport, bind=ANY_PORT)
    config = msgspec.structs.replace(config, transport=transport)

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        clients = Clients(config, config_folder, record.folder)
        clients.draw()
        return coordinate(config, config_folder, spec, record, clients)

    return recorded(config, "loopback", init_from, go)
