"""`coordinator dashboard RUN`: the live page of a run that another process has, or none any more."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from coordinator.dashboard.process import Dashboard
from coordinator.store.run_folder import RunFolder
from models.settings import ADDRESS_FORM, split_address
from models.spec import ConfigError
from wire.exit_codes import ExitCode


def dashboard(path: Path, address: str) -> ExitCode:
    """Serve the page at `host:port` until a signal comes, and print where it is.

    Raises:
        ConfigError: there is no run, or none in a store; a package is missing, or the address cannot be had.
    """
    folder = RunFolder.open(path)
    if folder.read_tables()["run"].get("store") == "memory":
        told = "[run] store = 'memory' leaves nothing for a page to read before the run is over"
        raise ConfigError(f"{folder.run_id}: {told}; coordinator report {path} shows it then")
    if split_address(address) is None:
        raise ConfigError(f"ADDR = {address!r}: expected {ADDRESS_FORM}, or a port of this machine alone")
    with contextlib.closing(Dashboard(folder, address, given_as="ADDR")) as page:
        print(f"live page: {page.url}", flush=True)
        if page.stay():
            return ExitCode.FINISHED
    print("coordinator: the page's process has ended", file=sys.stderr)
    return ExitCode.FAILED
