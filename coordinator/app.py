"""One run on this machine, from its config to its exit code: run folder, what runs it, final table."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from coordinator.config import RunConfig
from coordinator.daemon import Coordinator
from coordinator.display import Display
from coordinator.loopback_clients import Clients
from coordinator.record import RunRecord, read_start
from coordinator.report.table import final_table
from coordinator.run_folder import RunFolder
from coordinator.store import StoreError
from models.data import dataset_classes
from models.spec import ConfigError, RunSpec
from wire.exit_codes import ExitCode
from wire.sockets.zeromq import AddressInUseError

Go = Callable[[RunSpec, RunRecord], ExitCode]
"""Runs a run to its end, given what it is and where its record goes."""


def serve(config: RunConfig, config_folder: Path, init_from: Path | None) -> ExitCode:
    """Run a coordinator for clients that connect from wherever they are."""

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        return coordinate(config, config_folder, spec, record, None)

    return recorded(config, "serve", init_from, go)


def coordinate(
    config: RunConfig, config_folder: Path, spec: RunSpec, record: RunRecord, clients: Clients | None
) -> ExitCode:
    """Run the coordinator daemon, and in a loopback run the clients that it starts."""
    try:
        return asyncio.run(Coordinator(config, spec, config_folder, record).run(clients))
    except AddressInUseError as error:
        raise ConfigError(f"[transport] bind: {error}") from None
    finally:
        _ignore_signals()
        if clients is not None:
            clients.stop()


def _ignore_signals() -> None:
    """Let nothing disturb the last steps, which take a bounded time: the event loop's handlers are gone by now."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def recorded(config: RunConfig, mode: str, init_from: Path | None, go: Go) -> ExitCode:
    """Make a run folder, let the run go to its end, and print its table, with the folder first and last.

    Raises:
        ConfigError: the data set's label map cannot be known, the address not be bound, or the store not be opened.
    """
    classes = dataset_classes(config.data)
    start = read_start(init_from, config.spec("", classes)) if init_from is not None else None
    folder = RunFolder.create(config, time.strftime("%Y%m%d-%H%M%S"))
    print(f"run folder: {folder.path}", flush=True)
    display = Display(sys.stderr, log_path=folder.log_path)
    record = RunRecord(folder, mode, config.run.store == "memory", display, start)
    try:
        code = go(config.spec(folder.run_id, classes), record)
    except ConfigError:
        folder.discard()
        raise
    except (StoreError, OSError) as error:
        folder.discard()
        raise ConfigError(f"[run] dir: {error}") from None
    finally:
        display.close()
    if record.summary is not None:
        print(final_table(record.summary))
    print(f"run folder: {folder.path}", flush=True)
    return code
