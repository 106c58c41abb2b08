"""Flower's deployment engine: a SuperLink, a SuperNode for each client, and an app that is submitted by `flwr run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import tomli_w

from tests.benchmarks.peers.contender import SERVER, Setting, client_name
from tests.benchmarks.peers.flower import Flower
from tests.benchmarks.peers.processes import free_ports

BIN = Path(sys.executable).parent
APP = Path(__file__).with_name("app")


class SuperLink(Flower):
    """As it comes, with a process for each ServerApp and ClientApp; unencrypted, its state in memory."""

    name = "SuperLink"
    database: ClassVar[str] = ""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._client_ports = free_ports(setting.num_clients)
        connection = {"address": f"127.0.0.1:{self.port}", "insecure": True}
        content = tomli_w.dumps({"superlink": {"default": "here", "here": connection}})
        (self.home / "config.toml").write_text(content)

    def variables(self) -> dict[str, str]:
        """Let it find the commands that it starts, too."""
        found = super().variables()
        return {**found, "PATH": f"{BIN}:/usr/bin:/bin"}

    def start_server(self) -> None:
        """Start a SuperLink."""
        command: list[str | Path] = [BIN / "flower-superlink", "--insecure", "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--database", str(self.folder / self.database)] if self.database else []
        self.processes.start("server", SERVER, command)

    def start_client(self, index: int, port: int) -> None:
        """Start a SuperNode."""
        own = ["--port", str(self._client_ports[index]), "--node-config", f"index={index}"]
        command = [str(BIN / "flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{port}", *own]
        self.processes.start("client", client_name(index), command)

    def start_rounds(self) -> None:
        """Submit the app; a server that waits for more clients than there are gets none."""
        setting = self.setting
        if setting.num_needed > setting.num_clients:
            return
        settings = {
            "payload": f"'{setting.payload.name}'",
            "rounds": setting.num_rounds,
            "needed": setting.num_needed,
            "deadline": setting.deadline_s,
            "marks": f"'{self.marks_path}'",
        }
        words = " ".join(f"{key}={value}" for key, value in settings.items())
        self.processes.start("other", "flwr run", [BIN / "flwr", "run", APP, "here", "--run-config", words])


class SuperLinkOnDisk(SuperLink):
    """Likewise, with its state in a database."""

    name = "SuperLink, database"
    database = "state.db"
