"""One run of a coordinator on this machine, from its config to its exit code: run folder, daemon, final table."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from coordinator.config import RunConfig
from coordinator.daemon import Coordinator
from coordinator.display import Display
from coordinator.loopback_clients import Clients
from coordinator.record import RunRecord
from coordinator.report.table import final_table
from coordinator.run_folder import RunFolder
from coordinator.store import StoreError
from models.data import dataset_classes
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.zeromq import AddressInUseError


def serve(config: RunConfig, config_folder: Path) -> ExitCode:
    """Run a coordinator for clients that connect from wherever they are."""
    return run(config, config_folder, "serve", lambda folder: None)


def run(
    config: RunConfig, config_folder: Path, mode: str, make_clients: Callable[[RunFolder], Clients | None]
) -> ExitCode:
    """Serve one run to its end, and print its folder first and last.

    Raises:
        ConfigError: the data set's label map cannot be known, or the address cannot be bound.
    """
    classes = dataset_classes(config.data)
    folder = RunFolder.create(config, time.strftime("%Y%m%d-%H%M%S"))
    print(f"run folder: {folder.path}", flush=True)
    display = Display(sys.stderr, log_path=folder.log_path)
    record = RunRecord(folder, mode, config.run.store == "memory", display)
    coordinator = Coordinator(config, config.spec(folder.run_id, classes), config_folder, record)
    clients = make_clients(folder)
    try:
        code = asyncio.run(coordinator.run(clients))
    except AddressInUseError as error:
        raise ConfigError(f"[transport] bind: {error}") from None
    except StoreError as error:
        raise ConfigError(f"[run] dir: {error}") from None
    finally:
        if clients is not None:
            clients.stop()
        display.close()
    if record.summary is not None:
        print(final_table(record.summary))
    print(f"run folder: {folder.path}", flush=True)
    return code
