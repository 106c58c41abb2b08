"""`coordinator stop RUN_DIR`: ends a run's process in order, so that `--resume` can go on with it."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from coordinator import client_api
from coordinator.holder import holder
from coordinator.run_folder import RunFolder
from coordinator.service.orders import SOCKET
from coordinator.service.queue import FILE, queue_of
from wire.exit_codes import ExitCode

WITHIN_S = 10.0
"""How long the process may take: it tells its clients, hears them say goodbye, and writes its summary."""


def stop(path: Path) -> ExitCode:
    """Tell the process that has the run in this folder to end, and see it end.

    Raises:
        ConfigError: there is no run folder.
    """
    folder = RunFolder.open(path)
    queue = queue_of(folder)
    if queue is not None and _is_at_work(queue.folder):
        print(f"{folder.run_id} is stopped; its outcome: {client_api.stop(folder.run_id, queue.folder)}")
        return ExitCode.FINISHED
    process = holder(folder.store_path)
    if process is None:
        print(f"{folder.run_id} does not run on this machine; its outcome: {_outcome(folder)}")
        return ExitCode.FINISHED
    process.terminate()
    give_up_at = time.monotonic() + WITHIN_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > give_up_at:
            print(f"{folder.run_id} still runs as process {process.pid} after {WITHIN_S:g} s")
            return ExitCode.FAILED
        time.sleep(0.02)
    print(f"{folder.run_id} is stopped; its outcome: {_outcome(folder)}")
    return ExitCode.FINISHED


def _is_at_work(service: Path) -> bool:
    """Say whether a service's process is there."""
    return (service / SOCKET).is_socket() and holder(service / FILE) is not None


def _outcome(folder: RunFolder) -> str:
    return str(folder.read_summary().get("outcome", "none yet, as it was killed"))
