"""A run of a test: its config, its coordinator and its clients, each a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from tests.integration.keyring import Keyring
from tests.integration.processes import Coordinator, Process, Processes
from tests.integration.raw_client import RawClient


class ServedRun:
    """Everything of one run; settings are tables of `run.toml`."""

    def __init__(self, folder: Path, processes: Processes, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self.processes = processes
        self.config_path = folder / "run.toml"
        self.keyring = Keyring(folder, [*map(client_id, range(20)), "stranger"])
        self._tables: dict[str, dict[str, Any]] = {}
        self.configure(**tables)

    def configure(self, **tables: Mapping[str, Any]) -> None:
        """Lay settings over those at hand and write the config."""
        for name, table in tables.items():
            self._tables.setdefault(name, {}).update(table)
        self.config_path.write_text(tomli_w.dumps(self._tables))

    def serve(self, *arguments: str, name: str = "coordinator") -> Coordinator:
        """Start a coordinator alone."""
        return self.processes.coordinator("serve", "--config", self.config_path, *arguments, name=name)

    def client(
        self, index: int, address: str, *, name: str = "", stays: bool = False, **tables: Mapping[str, Any]
    ) -> Process:
        """Start the client of an index, for one run or to stay; `name` tells it from another one of the same id."""
        client, name = client_id(index), name or client_id(index)
        state, here = str(self.folder / "state"), str(self.folder)
        own: dict[str, dict[str, Any]] = {
            "client": {"id": client, "dir": state, "plugins": self._plugins(), "paths": [here]},
            "coordinator": {"address": address},
            "data": {"index": index},
        }
        for table, settings in (*self.keyring.of_client(client).items(), *tables.items()):
            own.setdefault(table, {}).update(settings)
        path = self.folder / f"{name}.toml"
        path.write_text(tomli_w.dumps(own))
        return self.processes.client(path, *([] if stays else ["--once"]))

    def peer(self, address: str, client: str = "stranger") -> RawClient:
        """Return an enrolled peer that speaks as a test wants it."""
        return RawClient(address, client, self.keyring.pairs[client], self.keyring.coordinator.public)

    def resume(self, ended: Coordinator, *arguments: str, name: str = "resumed") -> Coordinator:
        """Start a coordinator that goes on with a served run, where the clients of that look for it."""
        return self.resume_at(ended.address, ended.folder, *arguments, name=name)

    def resume_at(self, address: str, folder: Path, *arguments: str, name: str = "resumed") -> Coordinator:
        """Start a coordinator at an address that goes on with the run in a folder."""
        bind = f"transport.bind={address}"
        return self.processes.coordinator("serve", "--resume", folder, "--set", bind, *arguments, name=name)

    def _plugins(self) -> list[str]:
        """Return the parts of the run that a device must allow."""
        chosen = (self._tables.get("method", {}).get("name", ""), self._tables.get("data", {}).get("partition", ""))
        return [name for name in chosen if ":" in name]


def client_id(index: int) -> str:
    """Return the id that loopback gives the client of this index, too."""
    return f"client-{index:02d}"
