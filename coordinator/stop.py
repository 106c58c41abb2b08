"""`coordinator stop [RUN]`: ends a run's process in order, so that `--resume` can go on with it."""

from __future__ import annotations

import contextlib
import shlex
import time
from pathlib import Path

import psutil

from coordinator import client_api
from coordinator.config import RunSection
from coordinator.service.queue import RUNS, Queue, service_goes_on, service_of
from coordinator.store.holder import holder
from coordinator.store.run_folder import RunFolder
from coordinator.store.stored import read_facts, reading
from coordinator.whereabouts import whereabouts
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
        ConfigError: there is no run folder, or the run is one that its service goes on with when it is started, or that
            a service has which does not know the folder; or the process is another account's.
    """
    folder = RunFolder.open(path)
    found = whereabouts(folder)
    if found.outcome:
        return _told(f"{folder.run_id} was over already; its outcome: {found.outcome}")
    if found.queue is not None:
        return _told(f"{folder.run_id} is stopped; its outcome: {_stop_by(found.queue, folder.run_id)}")
    process = found.process
    if process is None:
        return _told(f"{folder.run_id} has no process on this machine: it was killed, or runs elsewhere")
    _see_alone(process, folder)
    try:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
            process.terminate()
    except psutil.AccessDenied:
        raise ConfigError(f"process {process.pid}, which has {folder.run_id}, is another account's") from None
    give_up_at = time.monotonic() + WITHIN_S
    while _is_there(process):
        if time.monotonic() > give_up_at:
            print(f"{folder.run_id} still runs as process {process.pid} after {WITHIN_S:g} s")
            return ExitCode.FAILED
        time.sleep(0.02)
    outcome = folder.read_summary().get("outcome")
    told = f"{folder.run_id} is stopped; its outcome: {outcome or 'none yet, as its process was killed'}"
    left = whereabouts(folder)
    if left.queue is not None and not left.outcome:
        told += f"; {_who_goes_on(left.queue.folder, folder.run_id)}"
    return _told(told)


def _who_goes_on(service: Path, run_id: str) -> str:
    """Say what becomes of a run that a service has in its queue, now that no other process has it."""
    if not client_api.is_at_work(service):
        return service_goes_on(service)
    return f"its service in {service} goes on with it by itself, unless you `coordinator cancel {run_id}`"


def _is_there(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it ended between the two
        return False


def _see_alone(process: psutil.Process, folder: RunFolder) -> None:
    """Raise ConfigError for a process that is a service, as its other runs would end too."""
    service = service_of(process)
    if service is None:
        return
    with reading(folder.store_path) as connection:
        run_id = read_facts(connection).run_id or folder.run_id
    told = f"process {process.pid}, which has this run, is the service in {service}, whose other runs would end too"
    by_name = f"PROTOEDGE_SERVICE={shlex.quote(str(service))} coordinator cancel {run_id}"
    raise ConfigError(f"{folder.path}: {told}; have the service end this one alone: {by_name}")


def _told(line: str) -> ExitCode:
    print(line)
    return ExitCode.FINISHED


def _stop_by(queue: Queue, run_id: str) -> str:
    """Have a run's service end it, and return its outcome.

    Raises:
        ConfigError: the service does not run, so that it goes on with the run when it is started.
    """
    if not client_api.is_at_work(queue.folder):
        advice = f"start that, then `coordinator stop {run_id}`, or `cancel`"
        raise ConfigError(f"{run_id}: {service_goes_on(queue.folder)}; {advice}")
    return client_api.stop(run_id, queue.folder)
