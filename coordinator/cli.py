"""The command `coordinator`.

Only what the interpreter has loaded anyway is imported at the top, so that the signal handlers stand before anything
takes time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wire.disk import advised, lacks_space
from wire.exit_codes import ExitCode
from wire.sockets.command import add_version, run_command

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from coordinator.config import RunConfig
    from coordinator.store.run_folder import RunFolder


DASHBOARD = "127.0.0.1:7080"
"""Where the live page listens if no other address is named."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its `ExitCode`."""
    return run_command("coordinator", lambda: _run_command(argv))


def _run_command(argv: Sequence[str] | None) -> int:
    from models.spec import ConfigError, NoSpaceError

    try:
        args = _parser().parse_args(argv)
        return int(args.command(args))
    except ConfigError as error:
        is_full = isinstance(error, NoSpaceError) or lacks_space(error)
        print(f"coordinator: {advised(str(error), is_full)}", file=sys.stderr)
        return ExitCode.NO_SPACE if is_full else ExitCode.BAD_CONFIG


def _parser() -> argparse.ArgumentParser:
    import argparse
    from pathlib import Path

    from coordinator.report.forms import FORMS, PAGE
    from coordinator.service.cli import RUN, add_service_commands, run_dir

    parser = argparse.ArgumentParser(prog="coordinator", description="The server of federated prototype learning.")
    add_version(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    parser.set_defaults(command=lambda args: parser.error(f"expected a command: {', '.join(commands.choices)}"))

    def add(name: str, command: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=summary)
        made.set_defaults(command=command)
        return made

    serve = add("serve", _serve, "run a coordinator that clients connect to; without a run one that stands for many")
    loopback = add("loopback", _loopback, "run a coordinator and its clients, all on this machine")
    simulate = add("simulate", _simulate, "run everything without a network, with the same arithmetic and bytes")
    check = add("check-config", _check_config, "check a config and print it with every default filled in")
    for command in (serve, loopback, simulate, check):
        _add_settings(command)
    for command in (serve, loopback, simulate):
        origin = command.add_mutually_exclusive_group()
        start = "start from the global state that another run of the method, with the same classes, ended with"
        origin.add_argument("--init-from", type=Path, metavar="RUN_DIR", help=start)
        on = "go on with a run that was stopped or killed, with its own settings"
        origin.add_argument("--resume", type=Path, metavar="RUN_DIR", help=on)
        if command is serve:
            last = "go on with the last run of these settings if there is one, so that a service starts each run once"
            origin.add_argument("--resume-last", action="store_true", help=last)
    own = "the settings of one that stands, such as service.toml; --set overrides them where no run is named"
    serve.add_argument("--settings", type=Path, metavar="FILE", help=own)
    _add_allow_open_keys(serve)
    for command in (serve, loopback):
        live = f"serve a live page of the run at host:port, or at a port of this machine alone (default: {DASHBOARD})"
        command.add_argument("--dashboard", nargs="?", const=DASHBOARD, metavar="ADDR", help=live)
    simulate.add_argument("--jobs", type=int, metavar="N", help="work for clients in so many processes (default: 1)")
    executor = "who works for the clients: this machine's processes, or Ray (default: own)"
    simulate.add_argument("--executor", choices=["own", "ray"], help=executor)
    simulate.add_argument(
        "--ray-address", metavar="ADDR", help="join this Ray cluster, such as ray://head:10001 or auto"
    )
    measured = "give the clients the speed and links that another run has measured, in turn"
    simulate.add_argument("--profiles-from", type=Path, metavar="RUN_DIR", help=measured)
    loopback.add_argument("--clients", type=int, metavar="N", help="how many clients; all of them are waited for")
    status = add("status", _status, "say where a run stands")
    status.add_argument("run_dir", type=run_dir, metavar="RUN", help=RUN)
    status.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    again = "say it again every so many seconds until the run is over (default: 2)"
    status.add_argument("--watch", type=_seconds, nargs="?", const=2.0, metavar="SECONDS", help=again)
    page = add(
        "dashboard", _dashboard, "serve the live page of a run until a signal comes, whoever runs it, over or not"
    )
    page.add_argument("run_dir", type=run_dir, metavar="RUN", help=RUN)
    at = f"host:port, or a port of this machine alone (default: {DASHBOARD})"
    page.add_argument("address", nargs="?", default=DASHBOARD, metavar="ADDR", help=at)
    report = add("report", _report, "write the page of a run, or one that compares several")
    report.add_argument("run_dirs", type=run_dir, nargs="+", metavar="RUN", help=f"{RUN}, over or not")
    report.add_argument("--format", choices=FORMS, default=PAGE, help=f"default: {PAGE}")
    where = "the file to write; by default RUN_DIR/report.html, of several runs comparison.html, numbers are printed"
    report.add_argument("--output", type=Path, metavar="FILE", help=where)
    stop = add("stop", _stop, "end a run in order; --resume, or in a service `resume`, goes on with it")
    only = f"{RUN}; by default the one that goes on here"
    stop.add_argument("run_dir", type=run_dir, nargs="?", metavar="RUN", help=only)
    add_service_commands(add, _add_settings)
    _add_keys(add("keys", _keys, "make the coordinator's keys, and say whose keys let them in"))
    audit = add("audit", _audit, "try to tell whose samples class statistics were made of, by features that a run kept")
    audit.add_argument("run_dir", type=run_dir, metavar="RUN", help=f"{RUN}, of a run with [privacy] audit")
    audit.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    table = add("methods", _methods, "list the methods")
    table.add_argument("--format", choices=["text", "markdown", "json"], default="text", help="default: text")
    return parser


def _add_keys(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    summaries = {
        "init": "make keys unless there are some, and print what client.toml must say of them",
        "enroll": "let a client in by this key, and by no other that it had",
        "revoke": "let a client in no longer; one that is connected is told so when it next says something",
        "list": "list the clients and their keys",
    }
    made = {name: commands.add_parser(name, help=summary, description=summary) for name, summary in summaries.items()}
    for command in made.values():
        _add_settings(command)
        _add_allow_open_keys(command)
    for command in (made["enroll"], made["revoke"]):
        command.add_argument("client", metavar="CLIENT_ID", help="its [client] id")
    enroll = made["enroll"]
    enroll.add_argument("public_key", metavar="PUBLIC_KEY", help="what `edge-client keys init` printed on the device")
    enroll.add_argument("--expires", default="", metavar="WHEN", help="from then on it is refused, such as 2027-01-31")


def _add_allow_open_keys(parser: argparse.ArgumentParser) -> None:
    summary = "take a key file that others may read, and a list of clients that they may write"
    parser.add_argument("--allow-open-keys", action="store_true", help=summary)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument("--config", type=Path, metavar="FILE", help="the settings, such as run.toml")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="override one setting")


def _serve(args: argparse.Namespace) -> int:
    from coordinator.service.cli import is_standing, stand

    if is_standing(args):
        return stand(args)
    config, modules, folder = _load_run(args, "serve", [*args.set, *_live_page(args)])

    from coordinator.app import serve

    return serve(config, modules, args.init_from, folder, args.allow_open_keys)


def _loopback(args: argparse.Namespace) -> int:
    clients = [] if args.clients is None else [f"data.num_clients={args.clients}", "round.min_available_clients=0"]
    config, modules, folder = _load_run(args, "loopback", [*clients, *args.set, *_live_page(args)])

    from coordinator.loopback import loopback

    return loopback(config, modules, args.init_from, folder)


def _simulate(args: argparse.Namespace) -> int:
    given = {"jobs": args.jobs, "executor": args.executor, "ray_address": args.ray_address}
    chosen = [f"simulation.{key}={value}" for key, value in given.items() if value is not None]
    config, modules, folder = _load_run(args, "simulate", [*chosen, *args.set])
    if args.profiles_from is not None:
        from coordinator.simulation.measured import with_profiles_of
        from models.spec import ConfigError

        if folder is not None:
            raise ConfigError("--profiles-from: a run that goes on keeps the profiles that it was started with")
        config = with_profiles_of(config, args.profiles_from)

    from coordinator.simulation.simulate import simulate

    return simulate(config, modules, args.init_from, folder)


def _check_config(args: argparse.Namespace) -> int:
    config, _ = _load(args.config, args.set)

    from coordinator.notes import run_notes
    from models.data import dataset_classes

    spec = config.spec("", dataset_classes(config.data))
    for told in [*config.modules_not_here(), *run_notes(config, spec)]:
        print(f"coordinator: {told}", file=sys.stderr)
    print(config.to_toml(), end="")
    return ExitCode.FINISHED


def _status(args: argparse.Namespace) -> int:
    from coordinator.status.reading import read_status, watch
    from coordinator.status.text import format_status, json_status

    is_json = args.format == "json"
    if args.watch is not None:
        watch(args.run_dir, json_status if is_json else format_status, args.watch, sys.stdout)
    else:
        status = read_status(args.run_dir)
        print(json_status(status, indent=1) if is_json else format_status(status))
    return ExitCode.FINISHED


def _seconds(text: str) -> float:
    """Return a number of seconds from a tenth to a day."""
    import argparse
    import contextlib

    with contextlib.suppress(ValueError):
        if 0.1 <= (seconds := float(text)) <= 86_400:
            return seconds
    raise argparse.ArgumentTypeError(f"expected seconds from 0.1 to 86400, got {text!r}")


def _dashboard(args: argparse.Namespace) -> int:
    from coordinator.dashboard.command import dashboard

    return dashboard(args.run_dir, _at(args.address))


def _report(args: argparse.Namespace) -> int:
    from coordinator.report.command import report

    return report(args.run_dirs, args.format, args.output)


def _audit(args: argparse.Namespace) -> int:
    import json

    from coordinator.audit import audit_run, format_audit

    findings = audit_run(args.run_dir)
    plain = {round: [each._asdict() for each in found] for round, found in findings.items()}
    print(json.dumps(plain, indent=1) if args.format == "json" else format_audit(findings))
    return ExitCode.FINISHED


def _stop(args: argparse.Namespace) -> int:
    from coordinator.stop import only_run, stop

    return stop(args.run_dir or only_run())


def _keys(args: argparse.Namespace) -> int:
    import time
    from pathlib import Path

    from coordinator.clients import keys

    config, _ = _load(args.config, args.set)
    folder, allow_open = Path(config.transport.keys).expanduser(), args.allow_open_keys
    if args.action == "init":
        print(keys.init(folder, allow_open))
    elif args.action == "enroll":
        print(keys.enroll(folder, args.client, args.public_key, args.expires, time.time(), allow_open))
    elif args.action == "revoke":
        print(keys.revoke(folder, args.client, allow_open))
    else:
        print(keys.listing(folder, time.time(), allow_open))
    return ExitCode.FINISHED


def _methods(args: argparse.Namespace) -> int:
    from coordinator.method_table import format_methods

    print(format_methods(args.format))
    return ExitCode.FINISHED


def _live_page(args: argparse.Namespace) -> list[str]:
    """Return the setting for `--dashboard`."""
    import json

    return [] if args.dashboard is None else [f"report.dashboard={json.dumps(_at(args.dashboard))}"]


def _at(address: str) -> str:
    """Return the address of a live page: a port alone is one of this machine."""
    return f"127.0.0.1:{address}" if address.isdecimal() else address


def _load_run(args: argparse.Namespace, mode: str, settings: Sequence[str]) -> tuple[RunConfig, Path, RunFolder | None]:
    """Return a run's config, the folder of a user's own modules, and the run folder of one that goes on."""
    from coordinator.resume import last_run, take_up

    path = args.resume
    if path is None:
        config, modules = _load(args.config, settings, mode)
        path = last_run(config, mode) if mode == "serve" and args.resume_last else None
        if path is None:
            return config, modules, None
    return take_up(path, mode, args.config, settings)


def _load(path: Path | None, settings: Sequence[str], mode: str = "serve") -> tuple[RunConfig, Path]:
    """Return the config and its folder, where parts named `package.module:attribute` are looked for last."""
    from pathlib import Path

    from coordinator.config import load

    folder = path.resolve().parent if path else Path.cwd()
    sys.path.append(str(folder))
    return load(path, settings, mode), folder
