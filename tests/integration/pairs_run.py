"""A run of the `pairs` method for one test: its files, its processes, its gates, and what must come out of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from coordinator.config import RunConfig
from models.checkpoint import state_hash
from models.data import load_client_data
from models.methods.api import Update
from models.spec import RunSpec, read_section
from tests.integration.plugins import pairs
from tests.integration.processes import Coordinator, Process, Processes, booked, until
from tests.integration.served_run import ServedRun, client_id

METHOD = "pairs:METHOD"

CLASSES = ["a", "b", "c"]

HEARTBEAT_S = 0.5

SILENCE_S = 2 * HEARTBEAT_S
"""After this time without a word a peer counts as lost."""


class Counted(NamedTuple):
    """Whose updates of the two exchanges a completed round counted, by client index."""

    sums: Sequence[int]
    echoes: Sequence[int]


class Gates:
    """Where clients and server half are held up; see `plugins/pairs.py`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def shut(self, *names: str, how: str = "sleep") -> None:
        """Shut gates; whoever comes there waits in this way."""
        for name in names:
            (self.folder / f"{name}.here").unlink(missing_ok=True)
            (self.folder / name).write_text(how)

    def open(self, *names: str) -> None:
        """Let them go on."""
        for name in names:
            (self.folder / name).unlink()

    def see(self, *names: str) -> None:
        """Wait until they have come to their gates."""
        for name in names:
            until((self.folder / f"{name}.here").exists, f"{name} is at its gate")


class PairsRun(ServedRun):
    """Everything of one run; settings are tables of `run.toml` over those that `__init__` lists."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.gates = Gates(folder / "gates")
        tables: dict[str, dict[str, Any]] = {
            "run": {"num_rounds": 2},
            "method": {"name": METHOD, "gates": str(self.gates.folder)},
            "round": {"deadline_s": 60.0},
            "data": {
                "dataset": "npz", "root": str(folder / "data.npz"), "classes": CLASSES,
                "num_clients": 2, "partition": "iid", "min_size": 0,
            },
            "model": {"feature_dim": 8},
            "transport": {"bind": "127.0.0.1:0", "heartbeat_s": HEARTBEAT_S},
        }  # fmt: skip
        shutil.copy(pairs.__file__, folder)
        save_samples(folder / "data.npz", 40)
        super().__init__(folder, processes, tables)

    def loopback(self, *arguments: str, name: str = "loopback") -> Coordinator:
        """Start coordinator and clients in one go."""
        return self.processes.coordinator("loopback", "--config", self.config_path, *arguments, name=name)

    def simulate(self, *arguments: str, name: str = "simulation") -> Coordinator:
        """Start a simulation."""
        return self.processes.coordinator("simulate", "--config", self.config_path, *arguments, name=name)

    def serve_all(self, *indices: int) -> tuple[Coordinator, list[Process]]:
        """Start a coordinator and the clients of these indices."""
        coordinator = self.serve()
        return coordinator, [self.client(index, coordinator.address) for index in indices]

    def expected_hashes(self, rounds: Sequence[Counted | None]) -> list[str]:
        """Return what the global hashes must be after these rounds, None being a failed one."""
        return list(_hashes(self._config(), rounds))

    def has_made_uplink(self, client: str) -> bool:
        """Say whether a client that was started has the second uplink of a round on its disk."""
        return any((self.folder / "state" / client / "runs").glob("*/uplink-1.safetensors"))

    def class_counts(self, index: int) -> list[int]:
        """Return how many train samples of each class the client of an index has."""
        data = load_client_data(self._config().spec("", CLASSES), index)
        return [int(count) for count in np.bincount(data.train_y, minlength=len(CLASSES))]

    def _config(self) -> RunConfig:
        tables = {**self._tables, "method": {"name": f"{pairs.__name__}:METHOD"}}
        return read_section(RunConfig, tables, "run.toml")

    def undisturbed_hashes(self) -> list[str]:
        """Return what the global hashes must be if everybody is counted in every round."""
        everybody = range(self._tables["data"]["num_clients"])
        return self.expected_hashes([Counted(everybody, everybody)] * self._tables["run"]["num_rounds"])


def save_samples(path: Path, num: int, label: int | None = None) -> None:
    """Write a data set of so many samples, all with this label or with those of all classes in turn."""
    labels = np.arange(num) % len(CLASSES) if label is None else np.full(num, label)
    np.savez(path, x=np.zeros((num, 4), np.float32), y=labels)


def counted_in(coordinator: Coordinator) -> list[Counted | None]:
    """Return whose updates counted, round by round, as the coordinator's own record has it."""
    lines = booked(coordinator.folder)
    found: list[Counted | None] = []
    for closed in coordinator.rounds:
        accepted: tuple[list[int], list[int]] = ([], [])
        for line in lines:
            is_update = line["kind"] == "client" and line["exchange_index"] < 2 and line["status"] == "accepted"
            if is_update and line["round"] == closed["round"]:
                accepted[line["exchange_index"]].append(int(line["client"].removeprefix("client-")))
        found.append(Counted(*accepted) if closed["status"] == "completed" else None)
    return found


def _hashes(config: RunConfig, rounds: Sequence[Counted | None]) -> Iterator[str]:
    """Yield the global hash after each round: the method's two halves by themselves, without any runtime.

    The first round opens when `min_available_clients` are there, those with the smallest indices.
    """
    spec = config.spec("expected", config.data.classes)
    method = pairs.Config()
    server = pairs.PairsServer(spec, method)
    num_clients = config.data.num_clients if any(rounds) else 0
    clients = [_client(spec, method, index, server.constants()) for index in range(num_clients)]
    server.num_train = sum(len(client.context.train_y) for client in clients[: config.min_available_clients])
    for number, counted in enumerate(rounds, start=1):
        if counted is not None:
            before = [client.arrays() for client in clients]
            for exchange, indices in (("sums", counted.sums), ("echoes", counted.echoes)):
                downlink = server.configure(number, exchange)
                for index in indices:
                    clients[index].receive(exchange, downlink)
                sent = [Update(client_id(index), 0, clients[index].uplink(exchange)) for index in indices]
                server.aggregate(number, exchange, iter(sent))
            for index in set(range(len(clients))) - set(counted.echoes):
                clients[index].load(before[index])
        yield state_hash(server.arrays())


def _client(spec: RunSpec, method: pairs.Config, index: int, constants: Mapping[str, Any]) -> pairs.PairsClient:
    client = pairs.PairsClient(spec, method)
    data = load_client_data(spec, index)
    client.start(SimpleNamespace(client=client_id(index), train_y=data.train_y, constants=constants))
    return client
