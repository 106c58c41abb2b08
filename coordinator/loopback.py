"""`coordinator loopback`: a coordinator and its clients on this machine, real processes over real TCP."""

from __future__ import annotations

import functools
from pathlib import Path

from coordinator.app import RunRequest, coordinate, recorded
from coordinator.clients.door import Door
from coordinator.clients.keys import throw_away_keys
from coordinator.config import FREE_PORT, RunConfig
from coordinator.daemon import Coordinator
from coordinator.loopback_clients import Clients, client_names
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from models.settings import is_loopback, split_address
from models.spec import ConfigError, RunSpec
from wire.exit_codes import ExitCode
from wire.sockets.systemd import ServiceManager


def loopback(config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None) -> ExitCode:
    """Run coordinator and clients to the end; with a folder, go on with its run and its clients.

    The keys are made for this process and are in no file.

    Raises:
        ConfigError: others could reach the address, or see `recorded`.
    """
    transport = config.transport
    _check_own(transport.bind)
    keys = throw_away_keys(client_names(config.data.num_clients)) if transport.is_encrypted else None

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        clients = Clients(config, modules, record.folder, keys)
        if record.standing.constants is None:  # a run that has begun has its samples
            clients.draw()
        door = functools.partial(Door, transport, keys and keys.coordinator)
        coordinator = Coordinator(config, spec, modules, record, door, ServiceManager())
        return coordinate(coordinator, record.display, clients)

    return recorded(RunRequest(config, "loopback", modules, init_from, folder), go)


def _check_own(bind: str) -> None:
    """Refuse an address that other machines reach: nobody there could take part."""
    host, _ = split_address(bind) or ("", 0)
    if not is_loopback(host):
        expected = f"a loopback address such as {FREE_PORT}, as the keys of `loopback` are its own clients' alone"
        raise ConfigError(f"[transport] bind = {bind!r}: expected {expected}; `coordinator serve` is for others")
