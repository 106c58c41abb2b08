"""`--executor ray`: clients' work as Ray tasks, here or on the machines of a cluster; all else stays in this process.

A task is a function of what it is given: the data set in Ray's object store, the exchange's downlink, and clients'
states, which it returns. So Ray may run it wherever there is room, and again if a process or a machine is lost. All
that is ours travels as the bytes of its messages; Ray moves those and numpy arrays.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinator.aggregator.half import Constant
from coordinator.simulation import commands
from coordinator.simulation.batching import shares
from coordinator.simulation.clients import Announced, Assignment, Done, Setup, StateShelf
from coordinator.simulation.jobs import ClientsFailedError
from coordinator.simulation.ray_tasks import announce, perform
from coordinator.simulation.section import SimulationSection
from models.data import ClientParts
from models.methods.faults import MethodError, named
from models.settings import split_address
from models.shared_data import about
from models.spec import ConfigError
from wire.encoding import encode
from wire.errors import EncodeError, RecordError, UnfitArrayError
from wire.limits import PIPE_BYTES

MAX_RETRIES = 3
"""How often a task is done again whose process was lost."""

QUEUED_PER_CPU = 2
"""So many tasks are handed to Ray ahead, for each of its CPUs: it must hold their states."""

CONNECT_S = 5.0
"""How long a cluster's machine may take to answer at all; Ray itself would ask for minutes."""


class RayClients:
    """Has the work for clients done by Ray."""

    def __init__(
        self, setup: Setup, parts: ClientParts, modules: Path, section: SimulationSection, answer_s: float
    ) -> None:
        """Start Ray here, or join the cluster that the section names.

        Raises:
            ConfigError: Ray is not installed, cannot be reached, or the run wants what no other machine can do.
        """
        if setup.spec.privacy.audit:
            raise ConfigError("[privacy] audit: expected executor = 'own', as features are kept where a client is")
        self._ray = _import_ray()
        _start(self._ray, section.ray_address)
        self._setup = setup
        self._states = StateShelf(setup)
        self._modules = modules
        self._answer_s = answer_s
        self._stopped = False
        self._num_train: dict[str, int] = {}
        dataset = parts.dataset
        is_array = hasattr(dataset.x, "dtype")
        self._samples = self._ray.put((about(dataset), dataset.x, dataset.y) if is_array else None)
        self._opening: Any = None
        cpus, threads = self._ray.cluster_resources().get("CPU", 1), setup.spec.training.threads
        self._most_queued = max(1, int(QUEUED_PER_CPU * cpus / threads))
        self._resources = {"num_cpus": threads, "num_gpus": section.ray_gpus, "max_retries": MAX_RETRIES}

    async def begin(self, clients: Sequence[str], constants: Sequence[Constant]) -> AsyncGenerator[Announced, None]:
        """Yield what each of these clients announces."""
        opening = commands.opening(commands.Begin.of(self._setup, self._modules, None), constants)
        self._opening = self._ray.put([[bytes(frame) for frame in frames] for frames in opening])
        task = self._ray.remote(**self._resources)(announce)

        def ask(clients: Sequence[str]) -> Any:
            return task.remote(self._opening, self._samples, clients[0])

        async for frames in self._results([[client] for client in clients], ask):
            announced = commands.read_announced(frames)
            self._num_train[announced.client] = announced.ready.num_train
            yield announced

    async def perform(self, assignment: Assignment, kept: Mapping[str, int]) -> AsyncGenerator[Done, None]:
        """Yield what each client of `kept` has done."""
        round, exchange = assignment.round, assignment.exchange
        opened = encode(commands.Open(round, exchange, assignment.base), assignment.downlink, PIPE_BYTES)
        downlink = self._ray.put([bytes(frame) for frame in opened])
        task = self._ray.remote(**self._resources)(perform)

        def ask(clients: Sequence[str]) -> Any:
            states = {client: self._begin(client, round, exchange, kept[client]) for client in clients}
            return task.remote(self._opening, self._samples, downlink, {name: kept[name] for name in clients}, states)

        async for performed in self._results(self._shares(kept), ask):
            for head, frames, state in performed:
                done = commands.read_performed(head, frames)
                self._states(done.client).save(round, exchange, state)
                yield done

    def _begin(self, client: str, round: int, exchange: int, kept: int) -> tuple[Mapping[str, Any] | None, str]:
        states = self._states(client)
        return states.begin(round, exchange, kept), states.lack

    def _shares(self, clients: Iterable[str]) -> list[list[str]]:
        return shares(clients, self._num_train, self._most_queued // QUEUED_PER_CPU if self._setup.batched else 0)

    def stop(self) -> None:
        """End before the next answer."""
        self._stopped = True

    async def close(self) -> None:
        """Leave the cluster, or end the Ray that was started here."""
        await asyncio.to_thread(self._ray.shutdown)

    def peak_rss_bytes(self) -> None:
        """Return nothing: Ray's processes may be anywhere."""
        return

    async def _results(
        self, shares: Sequence[list[str]], ask: Callable[[Sequence[str]], Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield what the task of each of these shares has returned, a few tasks ahead of what Ray has room for."""
        todo, asked = deque(shares), dict[asyncio.Future[Any], str]()
        while todo or asked:
            while todo and len(asked) < self._most_queued:
                share = todo.popleft()
                asked[asyncio.wrap_future(ask(share).future())] = share[0]
            done, _ = await asyncio.wait(asked, timeout=self._answer_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise ClientsFailedError(f"Ray gave no answer within {self._answer_s:g} s")
            for answered in done:
                client = asked.pop(answered)
                if self._stopped:
                    return
                yield self._result(client, answered)

    def _result(self, client: str, answered: asyncio.Future[Any]) -> Any:
        """Return what a task has returned.

        Raises:
            ConfigError, EncodeError, ClientsFailedError: it has failed.
        """
        try:
            return answered.result()
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ConfigError | EncodeError):
                raise error.cause from None
            is_told = isinstance(error.cause, MethodError | UnfitArrayError | RecordError)
            raise ClientsFailedError(str(error.cause) if is_told else named(error.cause)) from None
        except self._ray.exceptions.RayError as error:
            raise ClientsFailedError(f"{client}: {error}") from None


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("[simulation] executor = 'ray': Ray is not installed; pip install 'protoedge[ray]'") from None
    return ray


def _start(ray: Any, address: str) -> None:
    """Start or join; Ray's own handler of SIGTERM makes way for the one that was there."""
    _see_reachable(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"[simulation] ray_address = {address!r}: expected a Ray cluster to join: {error}") from None
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _see_reachable(address: str) -> None:
    """See that somebody listens at an address that has a host and a port; others, such as "auto", are Ray's own.

    Raises:
        ConfigError: nobody does.
    """
    parts = split_address(address.removeprefix("ray://"))
    if parts is None:
        return
    try:
        socket.create_connection(parts, CONNECT_S).close()
    except OSError as error:
        expected = f"expected a Ray cluster to join, which `ray start --head` begins there; no connection: {error}"
        raise ConfigError(f"[simulation] ray_address = {address!r}: {expected}") from None
