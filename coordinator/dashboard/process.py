"""The live page's process, as the one that starts it sees it: that of the run, or `coordinator dashboard`.

The address is bound here, so that one that cannot be had ends the run before it begins, and handed on with the token
through a pipe; when that closes, however this process ends, the page says where the run is and its process leaves.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from coordinator.store.run_folder import RunFolder
from models.settings import is_loopback, split_address
from models.spec import ConfigError
from wire.sockets.signals import ending

NEEDED = ("jinja2", "starlette", "uvicorn", "prometheus_client")

ELSEWHERE = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}
"""By what stands for all addresses of this machine, one that is not of this machine; nothing is ever sent there."""

LEAVE_S = 3.0
"""How long the process has to leave after the run."""


class Dashboard:
    """The live page of a run, from now until `close`."""

    def __init__(self, folder: RunFolder, address: str, given_as: str = "", log: Path | None = None) -> None:
        """Serve it at `host:port`; with a token unless only this machine can reach that.

        Args:
            folder: the run's.
            address: where.
            given_as: what an error calls the address; by default its setting.
            log: a file for what the page's process says; by default that is said where this one says it.

        Raises:
            ConfigError: a package is missing, or the address cannot be bound.
        """
        if missing := [name for name in NEEDED if find_spec(name) is None]:
            raise ConfigError(f"the live page needs {', '.join(missing)}: pip install 'protoedge[dashboard]'")
        name, port = split_address(address) or ("", 0)
        self._token = "" if is_loopback(name) else _new_token()
        with _bound(name, port, given_as or "[report] dashboard") as listener:
            host, port = _shown(listener), listener.getsockname()[1]
            self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self._process = _spawn(folder.path, listener, log)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._token}\n".encode())
        self._process.stdin.flush()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{self._host}/" + (f"?token={self._token}" if self._token else "")

    def stay(self) -> bool:
        """Wait until a signal ends it, a second one by force, and say whether one has: its process may fail."""
        has_ended, lifeline = False, self._process.stdin
        assert lifeline is not None

        def end(number: int, frame: object) -> None:
            nonlocal has_ended
            if has_ended:
                self._process.kill()
            has_ended = True
            with contextlib.suppress(BrokenPipeError):
                lifeline.close()

        for number in ending():
            signal.signal(number, end)
        self._process.wait()
        return has_ended

    def close(self) -> None:
        """Let it say where the run is, and see it leave, by force if need be."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _shown(listener: socket.socket) -> str:
    """Return the host by which a browser finds a listener: of one at all addresses of this machine, that leads away."""
    host: str = listener.getsockname()[0]
    if host not in ELSEWHERE:
        return host
    with socket.socket(listener.family, socket.SOCK_DGRAM) as unsent, contextlib.suppress(OSError):
        unsent.connect((ELSEWHERE[host], 9))
        return str(unsent.getsockname()[0])
    return socket.gethostname()


def _new_token() -> str:
    import secrets  # a megabyte that few coordinators need

    return secrets.token_urlsafe(16)


def _bound(host: str, port: int, given_as: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        expected = f"expected a free address of this machine, got {error.strerror}"
        raise ConfigError(f"{given_as} = {f'{host}:{port}'!r}: {expected}") from None


def _spawn(folder: Path, listener: socket.socket, log: Path | None) -> subprocess.Popen[bytes]:
    """Start the process, which hears no signals of this one's terminal."""
    command = [sys.executable, "-I", "-m", "coordinator.dashboard", str(folder.resolve()), str(listener.fileno())]
    with contextlib.ExitStack() as opened:
        told = opened.enter_context(log.open("ab")) if log is not None else None
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=told,
            stderr=told,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
