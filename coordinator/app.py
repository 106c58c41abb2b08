"""One run on this machine, from its config to its exit code: run folder, what runs it, final table."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import msgspec

from coordinator.clients.door import Door
from coordinator.clients.keys import load_keys
from coordinator.config import RunConfig
from coordinator.daemon import Coordinator
from coordinator.display import Display
from coordinator.loopback_clients import Clients
from coordinator.metrics.privacy import require_accounting
from coordinator.start import Start, read_start
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import in_words, refused, settle
from coordinator.store.store import StoreError
from coordinator.table import final_table
from models.data import dataset_classes
from models.spec import ConfigError, RunSpec
from wire.exit_codes import ExitCode
from wire.sockets.log import say
from wire.sockets.outlet import Outlet
from wire.sockets.signals import ending, ignore_signals, run_daemon
from wire.sockets.systemd import ServiceManager
from wire.sockets.zeromq import AddressInUseError

REMOVED = "nothing has run, so the run folder is removed"

Go = Callable[[RunSpec, RunRecord], ExitCode]
"""Runs a run to its end, given what it is and where its record goes."""


@dataclass(frozen=True)
class RunRequest:
    """A run to be started, or to go on.

    Attributes:
        config: its settings.
        mode: `loopback`, `simulate` or `serve`.
        modules: folder of a user's own modules.
        init_from: the run whose global state a new one starts from, if any.
        folder: that of a run which goes on, None for a new one.
    """

    config: RunConfig
    mode: str
    modules: Path
    init_from: Path | None = None
    folder: RunFolder | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether `--resume` can go on with the run once it was interrupted."""
        return self.config.run.store == "disk"


def serve(
    config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None, open_keys: bool = False
) -> ExitCode:
    """Run a coordinator for clients that connect from wherever they are; with a folder, go on with its run."""
    keys = load_keys(config.transport, open_keys)

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        door = functools.partial(Door, config.transport, keys)
        coordinator = Coordinator(config, spec, modules, record, door, ServiceManager())
        return coordinate(coordinator, record.display, None)

    return recorded(RunRequest(config, "serve", modules, init_from, folder), go)


def coordinate(coordinator: Coordinator, display: Display, clients: Clients | None) -> ExitCode:
    """Run the coordinator daemon, and in a loopback run the clients that it starts."""

    async def run() -> ExitCode:
        end_by(lambda reason: coordinator.end(ExitCode.INTERRUPTED, reason), display.note)
        return await coordinator.run(clients)

    try:
        return run_daemon(run())
    except AddressInUseError as error:
        raise ConfigError(f"[transport] bind: {error}") from None
    finally:
        ignore_signals()
        if clients is not None:
            clients.stop()


def end_by(end: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Have a signal end the daemon in the running event loop, and an error in handling one message or timer noted."""

    def on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        lines = traceback.format_exception(error) if error else []
        note(f"internal error: {context['message']}\n{''.join(lines)}")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_error)
    for number in ending():
        loop.add_signal_handler(number, end, f"stopped by {number.name}")


@contextlib.contextmanager
def _printing() -> Iterator[None]:
    """Have standard output that cannot be written told, unless nobody reads it any more; the run goes on."""

    def tell(error: Exception) -> None:
        if not isinstance(error, BrokenPipeError):
            cause = getattr(error, "strerror", None) or error
            say(f"coordinator: standard output: {cause}; what the run prints is lost, and the run goes on")

    with contextlib.redirect_stdout(cast(TextIO, Outlet(sys.stdout, tell))):
        yield


@_printing()
def recorded(request: RunRequest, go: Go) -> ExitCode:
    """Let a run go to its end, and print its table, the run folder first and last; a new run's folder is made.

    Raises:
        ConfigError: the settings do not fit each other, the data set's label map cannot be known, the address not be
            bound, the store not be opened, or the noise not be accounted for.
    """
    if request.folder is not None and request.folder.read_summary().get("outcome") == "finished":
        return _tell_finished(request, request.folder)
    if request.mode != "serve":
        request.config.check_all_here()
    require_accounting(request.config.privacy)
    spec = request.config.spec("", dataset_classes(request.config.data))
    start = read_start(request.init_from, spec) if request.init_from is not None else None
    folder = request.folder or RunFolder.create(request.config, time.strftime("%Y%m%d-%H%M%S"))
    with _leaving_in_words(request, folder):
        print(f"run folder: {folder.path}", flush=True)
        code, summary = _carried_out(request, folder, msgspec.structs.replace(spec, run_id=folder.run_id), start, go)
    if summary is not None:
        print(final_table(summary), flush=True)
        _report(request, folder)
    print(f"run folder: {folder.path}", flush=True)
    return code


def _carried_out(
    request: RunRequest, folder: RunFolder, spec: RunSpec, start: Start | None, go: Go
) -> tuple[ExitCode, dict[str, Any] | None]:
    """Return how the run ended, and its figures; a new folder in which nothing could be started is removed again."""
    display, record = Display(sys.stderr, log_path=folder.log_path), None
    try:
        record = RunRecord(folder, request.config, request.mode, request.modules, display, start)
        with contextlib.closing(record), _live_page(request, folder):
            code = go(spec, record)
        if code == ExitCode.BAD_CONFIG and record.summary is not None and _is_removed(request, folder, record):
            raise ConfigError(record.summary["reason"])
        if code == ExitCode.INTERRUPTED and request.can_go_on:
            display.note(folder.how_to_go_on(request.mode))
    except (ConfigError, StoreError, OSError) as error:
        where = "[run] dir" if request.folder is None else "--resume"
        told = str(error) if isinstance(error, ConfigError) else f"{where}: {in_words(error, folder.path)}"
        raise refused(f"{told}; {REMOVED}" if _is_removed(request, folder, record) else told, error) from None
    finally:
        display.close()
    return code, record.summary


@contextlib.contextmanager
def _leaving_in_words(request: RunRequest, folder: RunFolder) -> Iterator[None]:
    """Have a signal that comes before the run handles its own end this process, and say what becomes of the run."""

    def leave(number: int, frame: object) -> NoReturn:
        what = REMOVED if _is_removed(request, folder) else folder.how_to_go_on(request.mode)
        say(f"stopped by {signal.Signals(number).name}; {what}")
        os._exit(ExitCode.INTERRUPTED)

    before = {number: signal.signal(number, leave) for number in ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is leave:
                signal.signal(number, handler)


def _is_removed(request: RunRequest, folder: RunFolder, record: RunRecord | None = None) -> bool:
    """Remove a new run's folder if nothing has happened in it, and say whether it is gone."""
    return request.folder is None and not (record and record.has_work) and folder.discard()


def _report(request: RunRequest, folder: RunFolder) -> None:
    """Write what is wanted of the run's figures, and say where it is."""
    forms = request.config.report.forms
    if forms:
        from coordinator.report.command import leave_behind  # not before the run is over, as it takes memory

        ignore_signals()
        for line in leave_behind(folder, forms):
            print(line)


@contextlib.contextmanager
def _live_page(request: RunRequest, folder: RunFolder) -> Iterator[None]:
    """Have the run's live page served, if it is wanted."""
    address = request.config.report.dashboard
    if not address:
        yield
        return
    from coordinator.dashboard.process import Dashboard

    with contextlib.closing(Dashboard(folder, address, log=folder.path / "dashboard.log")) as dashboard:
        print(f"live page: {dashboard.url}", file=sys.stderr, flush=True)  # not in the log: there may be a token in it
        yield


def _tell_finished(request: RunRequest, folder: RunFolder) -> ExitCode:
    ServiceManager().ready()  # for a service there is nothing to do, which is not a failure
    print(f"run folder: {folder.path}")
    print("the run is finished already")
    if folder.store_path.exists():
        with contextlib.suppress(StoreError):  # all that people are told is in the summary
            settle(folder.store_path)
    print(final_table(folder.read_summary()), flush=True)
    _report(request, folder)
    print(f"run folder: {folder.path}", flush=True)
    return ExitCode.FINISHED
