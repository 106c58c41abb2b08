"""The run behind an address of this machine: who listens there, and whose store that process has."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import psutil

from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import lock_path
from models.settings import is_loopback, split_address
from models.spec import ConfigError

WILDCARDS = ("0.0.0.0", "::")


def run_at(address: str) -> Path:
    """Return the folder of the run that clients of this address speak to.

    Raises:
        ConfigError: nobody listens there on this machine, or somebody who has no run at present, or several.
    """
    process = _listener(address)
    try:
        opened = sorted(Path(file.path) for file in process.open_files())
    except psutil.Error:
        raise ConfigError(f"{address}: process {process.pid} is another account's; ask as that, or as root") from None
    runs = [path.parent for path in opened if path == lock_path(RunFolder(path.parent).store_path)]
    if len(runs) == 1:
        return runs[0]
    if not runs:
        told = f"process {process.pid} listens there, and has no run in a store now"
        raise ConfigError(f"{address}: {told}; what runs a service has says `coordinator runs`")
    raise ConfigError(f"{address}: expected one run, process {process.pid} has {', '.join(map(str, runs))}; name one")


def _listener(address: str) -> psutil.Process:
    """Return the process that listens at an address, on every address of this machine or on this one."""
    host, port = split_address(address.removeprefix("tcp://")) or ("", 0)
    try:
        asked = {str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        asked = set()
    own = {told.address for interface in psutil.net_if_addrs().values() for told in interface}
    here = {ip for ip in asked if ip in own or ip in WILDCARDS or is_loopback(ip)}
    for found in _connections(address):
        at = found.laddr
        if found.status == psutil.CONN_LISTEN and at.port == port and here and at.ip in (*here, *WILDCARDS):
            if found.pid is None:
                raise ConfigError(f"{address}: another account listens there; ask as that, or as root")
            return psutil.Process(found.pid)
    reason = "nobody listens there" if here else "that is no address of this machine"
    raise ConfigError(f"{address}: {reason}; ask on the machine that has the run, such as by ssh")


def _connections(address: str) -> list[Any]:
    try:
        return list(psutil.net_connections("tcp"))
    except psutil.AccessDenied:  # as macOS has it
        advice = "name the run's folder, or ask as root"
        raise ConfigError(f"{address}: this system lets only root see who listens; {advice}") from None
