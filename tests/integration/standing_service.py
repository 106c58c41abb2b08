"""A standing coordinator for one test: its folder, its process, and the runs that are submitted to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from coordinator import client_api
from coordinator.service.orders import RunState
from coordinator.store.run_folder import RunFolder
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import WAIT_S, Process, until


class StandingService:
    """Has the data, the method and the clients of a `PairsRun`, and serves any number of runs of it."""

    def __init__(self, pairs: PairsRun) -> None:
        self.pairs = pairs
        self.folder = pairs.folder / "service"
        self.address = "127.0.0.1:0"
        self.process: Process

    def start(self, name: str = "service", **service: Any) -> Process:
        """Start it, and wait until it listens."""
        tables = {"service": service, "transport": {"bind": self.address}}
        settings = self.pairs.folder / "service.toml"
        settings.write_text(tomli_w.dumps(tables))
        process = self.pairs.processes.coordinator("serve", "--settings", settings, name=name)
        self.process, self.address = process, process.hear(r"listening on (\S+)\n")[1]
        return process

    def client(self, index: int, **client: Any) -> Process:
        """Start a client that stays; settings are of its `[client]`."""
        return self.pairs.client(index, self.address, stays=True, client=client)

    def submit(self, *settings: str) -> str:
        """Queue a run, and return its id."""
        return client_api.submit(self.pairs.config_path, settings, self.folder)

    def state(self, run_id: str) -> RunState:
        """Return where a run stands."""
        return client_api.state(run_id, self.folder)

    def outcome(self, run_id: str, within_s: float = WAIT_S) -> str:
        """Wait until a run is over, and return how it ended."""
        return until(lambda: self.state(run_id).outcome, f"{run_id} is over", within_s)

    def summary(self, run_id: str) -> dict[str, Any]:
        """Return the summary of a run."""
        return RunFolder(Path(self.state(run_id).folder)).read_summary()
