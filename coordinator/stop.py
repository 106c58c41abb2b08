"""`coordinator stop [RUN]`: ends a run's process in order, so that `--resume` can go on with it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import psutil

from coordinator import client_api
from coordinator.config import RunSection
from coordinator.holder import holder
from coordinator.run_folder import RunFolder
from coordinator.service.queue import RUNS, Queue, queue_of, service_goes_on
from models.spec import ConfigError
from wire.exit_codes import ExitCode

WITHIN_S = 10.0
"""How long the process may take: it tells its clients, hears them say goodbye, and writes its summary."""


def only_run() -> Path:
    """Return the folder of the run that goes on here: in the default `[run] dir`, or in the service that is meant.

    Raises:
        ConfigError: none does, or several.
    """
    places = (Path(RunSection().dir), client_api.default_service() / RUNS)
    folders = (RunFolder(config.parent) for place in places for config in sorted(place.glob("*/config.toml")))
    going_on = (folder.path for folder in folders if holder(folder.store_path) is not None)
    found = list({path.resolve(): path for path in going_on}.values())  # both places may be one
    if len(found) == 1:
        return found[0]
    if found:
        told = ", ".join(map(str, found))
        such = shlex.quote(str(found[0]))
        raise ConfigError(f"stop: expected one run that goes on here, got {told}; name one: coordinator stop {such}")
    looked = " and ".join(map(str, places))
    raise ConfigError(f"stop: no run goes on in {looked}; name its folder or address: coordinator stop RUN")


def stop(path: Path) -> ExitCode:
    """Tell the process that has the run in this folder to end, and see it end.

    Raises:
        ConfigError: there is no run folder, the run is one that its service goes on with when it is started, or it goes
            on with its store in memory.
    """
    folder = RunFolder.open(path)
    queue = queue_of(folder)
    if queue is not None and client_api.is_at_work(queue.folder):
        print(f"{folder.run_id} is stopped; its outcome: {client_api.stop(folder.run_id, queue.folder)}")
        return ExitCode.FINISHED
    process = holder(folder.store_path)
    if process is None:
        _see_nobody_goes_on(folder, queue)
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


def _see_nobody_goes_on(folder: RunFolder, queue: Queue | None) -> None:
    """Refuse a run that its service goes on with when it is started, or that a process here may have in memory."""
    if queue is not None and queue.find(folder.run_id).state != "over":
        advice = f"start that, then `coordinator stop {folder.run_id}`, or `cancel`"
        raise ConfigError(f"{folder.run_id}: {service_goes_on(queue.folder)}; {advice}")
    if folder.read_tables()["run"].get("store") == "memory" and not folder.read_summary():
        told = "a run with its store in memory does not say which process has it"
        raise ConfigError(f"{folder.path}: {told}; end that by Ctrl-C or SIGTERM")


def _outcome(folder: RunFolder) -> str:
    return str(folder.read_summary().get("outcome", "none yet, as it was killed"))
