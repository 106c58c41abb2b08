"""A coordinator and its clients on this machine: real processes, real TCP, nothing left behind.

Every client is an `edge-client run --once` of its own, with a `client.toml` in the run folder. All of them hold the
reading end of one pipe, their lifeline: when the coordinator ends, however it ends, the pipe closes and they leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from coordinator.clients.keys import ThrowAwayKeys
from coordinator.config import RunConfig
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError, unusable
from wire.exit_codes import ExitCode
from wire.sockets.child import LAST_LINES
from wire.sockets.log import last_lines, size_bytes

DRAW_S = 600.0
"""How long it may take to load the data set and spread it over the clients."""

LOOK_EVERY_S = 0.2
"""How often it is looked whether a client has ended."""

MAX_RESTARTS = 3
"""How often a process that was killed is started again."""

LEAVE_S = 1.5
"""How long clients have to leave after the run is over."""

ENDS: Mapping[int, ExitCode] = {
    ExitCode.BAD_CONFIG: ExitCode.BAD_CONFIG,
    ExitCode.REFUSED: ExitCode.REFUSED,
    ExitCode.NO_SPACE: ExitCode.INTERRUPTED,
}
"""How a run ends of which a client has given up with this code: for want of space it can go on; else it has failed."""


@dataclass
class ClientProcess:
    """One client, how often it was started again, and how much of its log others have written before it."""

    client: str
    config: Path
    log: Path
    log_before_bytes: int
    process: subprocess.Popen[bytes]
    restarts: int = 0


class Clients:
    """The client processes of one loopback run."""

    def __init__(self, config: RunConfig, modules: Path, folder: RunFolder, keys: ThrowAwayKeys | None) -> None:
        self._config = config
        self._keys = keys
        self._modules = modules
        self._folder = folder
        self._processes: list[ClientProcess] = []
        self._lifeline, self._held_end = os.pipe()

    def draw(self) -> None:
        """Write down which samples each client will have, before anything is started.

        Raises:
            ConfigError: the data cannot be loaded, or not be spread over the clients, or that not be written down.
        """
        for _ in range(1 + MAX_RESTARTS):
            code, said = self._try_to_draw()
            if code == ExitCode.FINISHED:
                return
            if code > 0:
                told = (said.strip().splitlines() or ["the samples cannot be drawn"])[-1]
                raise unusable(told, code == ExitCode.NO_SPACE)
        times = f"{1 + MAX_RESTARTS} times, the last by {signal.Signals(-code).name}"
        advice = "if nobody did that, memory is short: name a smaller data set"
        raise ConfigError(f"[data] the process that spreads the samples over the clients was killed {times}; {advice}")

    def start(self, address: str) -> None:
        """Start all clients."""
        for index, client in enumerate(client_names(self._config.data.num_clients)):
            config = self._write_config(client, index, address)
            log = config.with_name("log.txt")
            before_bytes = size_bytes(log)
            self._processes.append(ClientProcess(client, config, log, before_bytes, self._spawn(client, config, log)))

    async def given_up(self, left_out: Collection[str]) -> tuple[ExitCode, str]:
        """Look after the clients until one has given up that is not left out, and say why the run cannot go on."""
        while (reason := self.check(left_out)) is None:
            await asyncio.sleep(LOOK_EVERY_S)
        return reason

    def check(self, left_out: Collection[str]) -> tuple[ExitCode, str] | None:
        """Start killed clients again; say why the run cannot go on if one has given up that is not left out of it."""
        for held in self._processes:
            code = held.process.poll()
            if code is None or code == ExitCode.FINISHED or (code == ExitCode.REFUSED and held.client in left_out):
                continue
            if code < 0 and held.restarts < MAX_RESTARTS:
                held.restarts += 1
                held.log_before_bytes = size_bytes(held.log)
                held.process = self._spawn(held.client, held.config, held.log)
                continue
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            return ENDS.get(code, ExitCode.FAILED), f"{held.client} {how}: {last_line(held)}"
        return None

    def stop(self) -> None:
        """See all clients leave within LEAVE_S, by force if need be."""
        os.close(self._held_end)
        os.close(self._lifeline)
        until = time.monotonic() + LEAVE_S
        for held in self._processes:
            try:
                held.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                held.process.kill()
                held.process.wait()

    def _try_to_draw(self) -> tuple[int, str]:
        """Return the exit code of a process that draws, negative if a signal killed it, and what it said."""
        command = [sys.executable, "-I", "-m", "coordinator.draw", str(self._folder.path), str(self._modules)]
        try:
            drawn = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DRAW_S)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"[data] the samples were not spread over the clients within {DRAW_S:g} s") from None
        return drawn.returncode, drawn.stderr

    def _write_config(self, client: str, index: int, address: str) -> Path:
        folder = self._folder.client_folder(client)
        data, model = self._config.data, self._config.model
        named = (self._config.method_name, data.dataset, data.partition, model.name, *model.names)
        tables = {
            "client": {
                "id": client,
                "dir": str(folder.parent.resolve()),
                "plugins": [name for name in named if ":" in name],
                "plugin_dir": str(self._modules.resolve()),
                "paths": [path for path in (data.root or ".", data.indices, model.weights, model.path) if path],
                "downloads": data.download,
                "noise": "seed",
            },
            "coordinator": {"address": address, **self._security()},
            "data": {"source": "run", "index": index},
        }
        path = folder / "client.toml"
        path.write_text(tomli_w.dumps(tables), encoding="utf-8")
        return path

    def _security(self) -> dict[str, str]:
        return {"public_key": self._keys.coordinator.own.public} if self._keys else {"security": "none"}

    def _spawn(self, client: str, config: Path, log: Path) -> subprocess.Popen[bytes]:
        """Start a client; its secret key goes through its standard input, so that no file has it."""
        command = [sys.executable, "-I", "-m", "edge_client", "run", "--config", str(config), "--once"]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*command, "--lifeline", str(self._lifeline), *(["--key-from-stdin"] if self._keys else [])],
                pass_fds=[self._lifeline],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(self._keys.clients[client].secret.encode() if self._keys else b"")
        return process


def client_names(num_clients: int) -> list[str]:
    """Return the ids of clients that this machine starts or simulates, by their part of the data."""
    width = max(2, len(str(num_clients - 1)))
    return [f"client-{index:0{width}d}" for index in range(num_clients)]


def last_line(held: ClientProcess) -> str:
    """Return the last line that a client has said since it was started."""
    lines = last_lines(held.log, LAST_LINES, held.log_before_bytes)
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
