"""The command `edge-client`.

Only what the interpreter has loaded anyway is imported at the top, so that the signal handlers stand before anything
takes time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wire.disk import advised, lacks_space
from wire.exit_codes import ExitCode
from wire.sockets.command import add_version, run_command
from wire.sockets.early import PAUSES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its `ExitCode`."""
    return run_command("edge-client", lambda: _run_command(argv), ignored=PAUSES)


def _run_command(argv: Sequence[str] | None) -> int:
    from models.spec import ConfigError, NoSpaceError

    args = _parser().parse_args(argv)
    try:
        return int(args.command(args))
    except ConfigError as error:
        is_full = isinstance(error, NoSpaceError) or lacks_space(error)
        print(f"edge-client: {advised(str(error), is_full)}", file=sys.stderr)
        return ExitCode.NO_SPACE if is_full else ExitCode.BAD_CONFIG


def _parser() -> argparse.ArgumentParser:
    import argparse
    from pathlib import Path

    parser = argparse.ArgumentParser(prog="edge-client", description="A device's part in federated prototype learning.")
    add_version(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    run = commands.add_parser("run", help="take part in the runs of a coordinator")
    run.set_defaults(command=_run)
    _add_settings(run)
    run.add_argument("--once", action="store_true", help="exit at the end of the first run, do not wait for the next")
    _add_allow_open_keys(run)
    run.add_argument("--key-from-stdin", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--lifeline", type=int, metavar="FD", help=argparse.SUPPRESS)
    keys = commands.add_parser("keys", help="make this device's keys").add_subparsers(metavar="COMMAND", required=True)
    init = keys.add_parser("init", help="make keys unless there are some, and print the command that enrolls them")
    init.set_defaults(command=_keys_init)
    _add_settings(init)
    _add_allow_open_keys(init)
    export = commands.add_parser("export", help="write the model of a finished run as an ONNX file, and test it")
    export.set_defaults(command=_export)
    _add_settings(export)
    export.add_argument("--run", default="", metavar="RUN_ID", help="by default the last that was finished")
    export.add_argument("--out", type=Path, metavar="FILE", help="by default model.onnx in the client's folder")
    export.add_argument("--int8", action="store_true", help="write one in int8 too, beside it")
    predict = commands.add_parser("predict", help="say what images show, by an exported model")
    predict.set_defaults(command=_predict)
    predict.add_argument("--model", type=Path, metavar="FILE", required=True, help="what `edge-client export` wrote")
    predict.add_argument("--rule", default="", help="such as head or global_prototype; by default the run's headline")
    predict.add_argument("images", type=Path, nargs="+", metavar="IMAGE")
    _add_doctor(
        commands.add_parser("doctor", help="say what is not well with this device and its way to a coordinator")
    )
    parser.set_defaults(command=lambda args: parser.error("expected a command: run, keys, export, predict, doctor"))
    return parser


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_doctor)
    _add_settings(parser, required=False)
    parser.add_argument("--coordinator", metavar="ADDR", help="its host:port, if it is not that of the settings")
    _add_allow_open_keys(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text", help="default: text")


def _add_settings(parser: argparse.ArgumentParser, required: bool = True) -> None:
    from pathlib import Path

    what = "the settings, such as client.toml"
    parser.add_argument("--config", type=Path, metavar="FILE", required=required, help=what)
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="override one setting")


def _add_allow_open_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow-open-keys", action="store_true", help="take a key file that others may read")


def _run(args: argparse.Namespace) -> int:
    from edge_client.config import load
    from edge_client.keys import load_keys

    config = load(args.config, args.set)
    keys = load_keys(config, args.allow_open_keys, args.key_from_stdin)
    modules = args.config.resolve().parent / config.client.plugin_dir

    from edge_client.app import run

    return run(config, modules, keys, args.once, args.lifeline)


def _keys_init(args: argparse.Namespace) -> int:
    from edge_client.config import load
    from edge_client.keys import init

    print(init(load(args.config, args.set), args.allow_open_keys))
    return ExitCode.FINISHED


def _export(args: argparse.Namespace) -> int:
    from edge_client.config import load
    from edge_client.export import export
    from models.methods.faults import MethodError
    from wire.errors import UnfitArrayError

    config = load(args.config, args.set)
    modules = args.config.resolve().parent / config.client.plugin_dir
    try:
        for line in export(config, modules, args.out, args.int8, args.run):
            print(line)
    except (MethodError, UnfitArrayError) as error:
        print(f"edge-client: {error}", file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.FINISHED


def _predict(args: argparse.Namespace) -> int:
    from edge_client.predict import predict

    for line in predict(args.model, args.images, args.rule):
        print(line)
    return ExitCode.FINISHED


def _doctor(args: argparse.Namespace) -> int:
    import json

    from edge_client.config import load
    from edge_client.doctor import examine
    from edge_client.doctor.finding import as_plain, as_text, exit_code
    from models.settings import ADDRESS_FORM, split_address
    from models.spec import ConfigError

    config = load(args.config, args.set) if args.config or args.set else None
    address = args.coordinator or (config.coordinator.address if config else "")
    if address and split_address(address) is None:
        raise ConfigError(f"--coordinator {address}: expected {ADDRESS_FORM}")
    findings = list(examine(config, address, args.allow_open_keys))
    print(json.dumps(as_plain(findings), indent=1) if args.format == "json" else as_text(findings))
    return exit_code(findings)
