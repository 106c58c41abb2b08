"""What the two commands have in common: how they begin and end.

Only what the interpreter has loaded anyway is imported at the top, so that the signal handlers stand before anything
takes time.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

from wire.exit_codes import ExitCode
from wire.sockets.early import leave_on_signals
from wire.sockets.lean import keep_openssl_out
from wire.sockets.outlet import Outlet

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

WINDOWS = "expected Linux or macOS, got Windows: use protoedge within WSL2 (https://learn.microsoft.com/windows/wsl)"


def run_command(name: str, command: Callable[[], int], ignored: Sequence[str] = ()) -> int:
    """Run a command of this name and return its exit code.

    A signal before the daemon handles its own ends quietly as well, one that is `ignored` does nothing. Where the
    daemons cannot run this is said in a line, before anything is imported that is not there. So is what file cannot be
    used, where nobody who knows more of it has said so, and that standard output cannot be written, but where nobody
    reads it any more. That standard error cannot be written changes nothing.
    """
    if sys.platform == "win32":
        print(WINDOWS, file=sys.stderr)
        return ExitCode.BAD_CONFIG
    leave_on_signals(ignored)
    outlet = Outlet(sys.stderr)
    with contextlib.redirect_stderr(cast("TextIO", outlet)):
        code = _carry_out(name, command)
        outlet.flush()
    return code


def _carry_out(name: str, command: Callable[[], int]) -> int:
    """Run the command and return its exit code, or that of an error of a file; output that is lost is the command's."""
    code: int = ExitCode.FINISHED
    lost: list[Exception] = []

    def lose(error: Exception) -> NoReturn:
        lost.append(error)
        raise error

    try:
        with contextlib.redirect_stdout(cast("TextIO", Outlet(sys.stdout, lose))):
            try:
                keep_openssl_out()
                code = command()
            finally:
                sys.stdout.flush()
    except OSError as error:
        is_of_output = error in lost
        if is_of_output and isinstance(error, BrokenPipeError):
            return code
        from wire.disk import advised, lacks_space

        is_full = lacks_space(error)
        if error.filename is not None:
            print(f"{name}: {advised(f'{error.filename}: {error.strerror}', is_full)}", file=sys.stderr)
            return ExitCode.NO_SPACE if is_full else ExitCode.BAD_CONFIG
        if not is_of_output and not is_full:
            raise
        where = "standard output: " if is_of_output else ""
        print(f"{name}: {where}{error.strerror}: what was to be written is not whole", file=sys.stderr)
        return code or ExitCode.FAILED
    return code


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
