"""This runtime: `coordinator serve`, and for each client an `edge-client run` with its trainer."""

from __future__ import annotations

import json
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import tomli_w

from tests.benchmarks import job
from tests.benchmarks.peers.contender import SERVER, Contender, Rounds, Setting, client_name
from tests.integration.keyring import Keyring

METHOD = "noop:SIZED"

LAST_S = 60.0
"""How long a run may take to end after its last round."""


class Ours(Contender):
    """Plain, with the store on disk."""

    name = "ours"
    store: ClassVar[str] = "disk"
    security: ClassVar[str] = "none"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._keyring = Keyring(self.folder, map(client_name, range(setting.num_clients)))

    def start_server(self) -> None:
        """Start a coordinator with a run."""
        self._serve("--config", job.PLUGINS / "noop.toml", *_set(self._settings()))

    def restart_server(self) -> None:
        """Start a coordinator that goes on with the run."""
        self._serve("--resume", self._run_folder, *_set([f"transport.bind=127.0.0.1:{self.port}"]))

    def start_client(self, index: int, port: int) -> None:
        """Start a client's daemon, which starts its trainer."""
        client = client_name(index)
        allowed = {"plugins": [METHOD], "plugin_dir": str(job.PLUGINS), "paths": [str(self.folder)]}
        tables: dict[str, dict[str, Any]] = {
            "client": {"id": client, "dir": "state", **allowed},
            "coordinator": {"address": f"127.0.0.1:{port}", "security": self.security},
            "data": {"index": index},
        }
        for table, settings in self._keyring.of_client(client).items():
            tables[table].update(settings)
        config = self.folder / f"{client}.toml"
        config.write_text(tomli_w.dumps(tables))
        command = [sys.executable, "-I", "-m", "edge_client", "run", "--config", str(config), "--once"]
        self.processes.start("client", client, command)

    def rounds(self) -> Rounds:
        """Return the same with the coordination that the summary tells."""
        self.processes.until(lambda: self.processes.has_ended(SERVER), "the end of the run", LAST_S)
        summary = json.loads((self._run_folder / "summary.json").read_text())
        return super().rounds()._replace(coordination_ms=1000 * summary["coordination_s"]["median"])

    @cached_property
    def _run_folder(self) -> Path:
        first_line = self.processes.said(SERVER).partition("run folder: ")[2].splitlines()[0]
        return self.folder / first_line

    def _serve(self, *words: str | Path) -> None:
        self.processes.start("server", SERVER, [sys.executable, "-I", "-m", "coordinator", "serve", *words])

    def _settings(self) -> list[str]:
        setting = self.setting
        most = max(setting.num_clients, setting.num_needed)
        return [
            *job.noop_settings(self.folder, most, setting.num_rounds, self.store),
            f"method.name={METHOD}",
            f"method.rows={setting.payload.rows}",
            f"method.width={setting.payload.width}",
            f"method.marks={self.marks_path}",
            f"round.min_clients={setting.num_needed}",
            f"round.min_available_clients={setting.num_needed}",
            f"round.deadline_s={setting.deadline_s}",
            f"run.dir={self.folder}",
            f"transport.bind=127.0.0.1:{self.port}",
            f"transport.security={self.security}",
            f"transport.keys={self._keyring.folder}",
        ]


class OursInMemory(Ours):
    """Likewise, with the store in memory."""

    name = "ours, in memory"
    store = "memory"


class OursWithCurve(Ours):
    """Likewise, encrypted."""

    name = "ours, CURVE"
    security = "curve"


def _set(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
