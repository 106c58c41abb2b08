"""What the two commands have in common: how they begin and end.

Only what the interpreter has loaded anyway is imported at the top, so that the signal handlers stand before anything
takes time.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from wire.exit_codes import ExitCode
from wire.sockets.lean import keep_openssl_out

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

WINDOWS = "expected Linux or macOS, got Windows: use protoedge within WSL2 (https://learn.microsoft.com/windows/wsl)"


def run_command(name: str, command: Callable[[], int], ignored: Sequence[str] = ()) -> int:
    """Run a command of this name and return its exit code.

    A signal before the daemon handles its own ends quietly as well, one that is `ignored` does nothing. Where the
    daemons cannot run this is said in a line, before anything is imported that is not there. So is what file cannot be
    used, where nobody who knows more of it has said so.
    """
    if sys.platform == "win32":
        print(WINDOWS, file=sys.stderr)
        return ExitCode.BAD_CONFIG
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    for each in ignored:
        signal.signal(signal.Signals[each], signal.SIG_IGN)
    try:
        try:
            keep_openssl_out()
            return command()
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        _drop_output()
        return ExitCode.INTERRUPTED
    except OSError as error:
        if error.filename is not None:
            print(f"{name}: {error.filename}: {error.strerror}", file=sys.stderr)
            return ExitCode.BAD_CONFIG
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        print(f"{name}: {error.strerror}: what was to be written is not whole", file=sys.stderr)
        return ExitCode.FAILED


def _drop_output() -> None:
    """Let what is still buffered go nowhere, which would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_version(parser: argparse.ArgumentParser) -> None:
    """Let `--version` be a command: it prints the versions of the package and of the protocol."""
    parser.add_argument(
        "--version", action="store_const", dest="command", const=_print_versions, help="print the versions"
    )


def _print_versions(arguments: argparse.Namespace) -> int:
    from importlib.metadata import PackageNotFoundError, version

    from wire.version import PROTOCOL_VERSION

    try:
        package = version("protoedge")
    except PackageNotFoundError:
        package = "(not installed)"
    print(f"protoedge {package}, protocol {PROTOCOL_VERSION}")
    return ExitCode.FINISHED


def _leave(number: int, frame: object) -> NoReturn:
    os._exit(ExitCode.INTERRUPTED)
