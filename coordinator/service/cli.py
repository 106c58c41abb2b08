"""The commands around a standing coordinator: `serve` without a run, and what people ask of it."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

from wire.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

RUN = "the run's folder, its id in a service, or the address on this machine that its clients connect to"

FOLLOW_S = 0.2
"""How often `log --follow` looks for more."""


class Add(Protocol):
    """Adds a command to the parser."""

    def __call__(
        self, name: str, command: Callable[[argparse.Namespace], int], summary: str
    ) -> argparse.ArgumentParser:
        """Return the command's own parser."""


def add_service_commands(add: Add, add_settings: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add what people ask of a service: `submit`, `runs`, `log`, `resume` and `cancel`."""
    add_settings(add("submit", _submit, "queue a run of a service, and print its id"))
    listing = add("runs", _runs, "list the runs of a service")
    listing.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    log = add("log", _log, "print what a run has said")
    log.add_argument("run_dir", type=run_dir, metavar="RUN", help=RUN)
    log.add_argument("--follow", action="store_true", help="go on until the run is over")
    again = "queue a run of a service that was stopped, cancelled or has failed once more; one that ended by"
    larger = "max_failed_rounds ends by it again, unless `serve --resume` goes on with it with a larger one"
    resume = add("resume", _resume, f"{again} {larger}")
    cancel = add("cancel", _cancel, "take a run out of a service's queue, or end it")
    for command in (resume, cancel):
        command.add_argument("run_id", metavar="RUN", help="its id")


def run_dir(text: str) -> Path:
    """Return the folder of a run that is named by its folder, its id in a service, or its address on this machine.

    Raises:
        ConfigError: it is an address, and no run is behind it; or the service has runs, and none of this name, or not
            its folder.
    """
    from pathlib import Path

    from coordinator.client_api import default_service
    from coordinator.listener import run_at
    from coordinator.service.queue import RUNS, Queue
    from models.settings import is_plain_name, split_address
    from models.spec import ConfigError

    service, path = default_service(), Path(text)
    if path.exists():
        return path
    if (service / RUNS / text).is_dir():
        return service / RUNS / text
    if split_address(text.removeprefix("tcp://")) is not None:
        return run_at(text)
    if is_plain_name(text) and (queue := Queue(service)).entries:
        queue.find(text)
        told = f"its service expects its folder at {(service / RUNS / text).absolute()}, got nothing there"
        raise ConfigError(f"{text}: {told}; put it back, or name the folder where it is")
    return path


def is_standing(args: argparse.Namespace) -> bool:
    """Say whether `serve` is to stand: no run is named.

    Raises:
        ConfigError: something is named that belongs to one run, or to none.
    """
    from coordinator.service.settings import PAGE_OF_A_RUN
    from models.spec import ConfigError

    if args.config is not None or args.resume is not None:
        if args.settings is not None:
            raise ConfigError("serve: expected --settings without a run, or a run (--config or --resume) without it")
        return False
    if args.dashboard is not None:
        raise ConfigError(f"serve: expected --config FILE beside --dashboard; {PAGE_OF_A_RUN}")
    if args.init_from is not None or args.resume_last:
        raise ConfigError("serve: expected --config FILE beside --init-from and --resume-last")
    return True


def stand(args: argparse.Namespace) -> int:
    """Run a standing coordinator.

    Raises:
        ConfigError: its settings cannot be used, or its folder or its address not be had.
    """
    from pathlib import Path

    from coordinator.clients.keys import load_keys
    from coordinator.service.daemon import Service
    from coordinator.service.settings import load
    from models.spec import ConfigError
    from wire.sockets.signals import run_daemon
    from wire.sockets.zeromq import AddressInUseError

    config = load(args.settings, args.set)
    modules = (args.settings.resolve().parent if args.settings else Path.cwd()) / config.service.plugin_dir
    keys = load_keys(config.transport, args.allow_open_keys)
    sys.path.append(str(modules))
    try:
        return run_daemon(Service(config, modules, keys).run())
    except AddressInUseError as error:
        raise ConfigError(f"[transport] bind: {error}") from None


def _submit(args: argparse.Namespace) -> int:
    from coordinator import client_api

    run_id = client_api.submit(args.config, args.set)
    for told in _modules_not_here(args):
        print(f"coordinator: {told}", file=sys.stderr)
    print(run_id)
    return ExitCode.FINISHED


def _modules_not_here(args: argparse.Namespace) -> list[str]:
    """Return what `check-config` says of modules; nothing where only the service knows what the settings name."""
    from pathlib import Path

    from coordinator.config import load
    from models.spec import ConfigError

    sys.path.append(str(args.config.resolve().parent if args.config else Path.cwd()))
    try:
        return load(args.config, args.set).modules_not_here()
    except ConfigError:
        return []


def _runs(args: argparse.Namespace) -> int:
    import msgspec

    from coordinator import client_api

    runs = client_api.runs()
    if args.format == "json":
        print(msgspec.json.format(msgspec.json.encode([msgspec.structs.asdict(run) for run in runs])).decode())
        return ExitCode.FINISHED
    for run in runs:
        progress = f", in round {run.round} of {run.num_rounds}" if run.round is not None else ""
        print(f"{run.run_id}  {run.outcome or run.state}{progress}" + (f"  {run.told}" if run.told else ""))
    return ExitCode.FINISHED


def _log(args: argparse.Namespace) -> int:
    import time

    from coordinator.store.run_folder import RunFolder
    from coordinator.whereabouts import whereabouts
    from models.spec import ConfigError

    folder, log = RunFolder.open(args.run_dir), None
    was_queued = not folder.log_path.exists() and whereabouts(folder).state == "queued"
    if was_queued:
        print(f"{folder.run_id} is queued and has not begun", file=sys.stderr)
    with contextlib.ExitStack() as opened:
        while True:
            goes_on = args.follow and not whereabouts(folder).outcome
            if log is None and folder.log_path.exists():  # a run that is queued has none yet
                log = opened.enter_context(folder.log_path.open(encoding="utf-8", errors="replace"))
            sys.stdout.write(log.read() if log is not None else "")
            sys.stdout.flush()
            if not goes_on and log is None and not was_queued:
                raise ConfigError(f"{folder.log_path}: expected what the run has said, got nothing")
            if not goes_on:
                return ExitCode.FINISHED
            time.sleep(FOLLOW_S)


def _resume(args: argparse.Namespace) -> int:
    from coordinator import client_api

    print(f"{args.run_id} is {client_api.resume(args.run_id)}")
    return ExitCode.FINISHED


def _cancel(args: argparse.Namespace) -> int:
    from coordinator import client_api

    print(f"{args.run_id} is {client_api.cancel(args.run_id)}")
    return ExitCode.FINISHED
