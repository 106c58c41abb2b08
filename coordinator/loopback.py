"""`coordinator loopback`: a coordinator and its clients on this machine, real processes over real TCP."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from coordinator.app import Order, coordinate, recorded
from coordinator.config import RunConfig
from coordinator.daemon import Coordinator
from coordinator.door import Door
from coordinator.keys import throw_away_keys
from coordinator.loopback_clients import Clients, client_names
from coordinator.record import RunRecord
from coordinator.run_folder import RunFolder
from models.spec import RunSpec
from wire.exit_codes import ExitCode

ANY_PORT = "127.0.0.1:0"


def loopback(config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None) -> ExitCode:
    """Run coordinator and clients to the end, on any free port; with a folder, go on with its run and its clients.

    The keys are made for this process and are in no file.
    """
    transport = msgspec.structs.replace(config.transport, bind=ANY_PORT)
    config = msgspec.structs.replace(config, transport=transport)
    keys = throw_away_keys(client_names(config.data.num_clients)) if transport.is_encrypted else None

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        clients = Clients(config, modules, record.folder, keys)
        if record.standing.constants is None:  # a run that has begun has its samples
            clients.draw()
        door = functools.partial(Door, transport, keys and keys.coordinator)
        return coordinate(Coordinator(config, spec, modules, record, door), record.display, clients)

    return recorded(Order(config, "loopback", modules, init_from, folder), go)
