"""A standing coordinator in this very process: no clients but those that a test brings in, no aggregator at hand."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator.clients.door import Arrival
from coordinator.service.clerk import Clerk
from coordinator.service.daemon import Service
from coordinator.service.hosted import Hosted
from coordinator.service.orders import Done, ListRuns, Runs, Submit
from coordinator.service.queue import Entry
from coordinator.service.settings import ServiceConfig, load
from coordinator.service.spare import SpareAggregator
from wire.messages import Hello

UP_S = 10.0


def settings(folder: Path, *more: str) -> ServiceConfig:
    """Return those of a service in this folder, whose path must be short enough for a socket."""
    return load(None, [f"service.dir={folder}", "transport.bind=127.0.0.1:0", "transport.security=none", *more])


@contextlib.asynccontextmanager
async def standing(config: ServiceConfig) -> AsyncIterator[Service]:
    """Have a service stand for as long as this is entered."""
    up = asyncio.Event()

    async def prepare(spare: SpareAggregator) -> None:
        up.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpareAggregator, "prepare", prepare)
        service = Service(config, config.folder, None)
        serving = asyncio.ensure_future(service.run())
        await asyncio.wait_for(up.wait(), UP_S)
        try:
            yield service
        finally:
            signal.raise_signal(signal.SIGTERM)
            await serving


async def submitted(service: Service, *settings: str) -> str:
    """Submit a run, and return its id."""
    done = await Clerk(service).carry_out(Submit({}, list(settings), "run.toml"))
    assert isinstance(done, Done)
    return done.run_id


def fill_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Let nothing more be written to the queue."""

    def write_whole(path: Path, content: Iterable[bytes], mode: int = 0o666) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr("coordinator.service.queue.write_whole", write_whole)


def come(service: Service, client: str, **device: Any) -> None:
    """Let a client that stays say hello."""
    hello = Hello((1, 3), client, 1, device=device)
    service.foyer.take(Arrival(client.encode(), None, hello, None, [b""], None), asyncio.get_running_loop().time())


async def begun(service: Service, *more: str) -> Hosted:
    """Submit a run of two clients, which are there, and let it begin."""
    run_id = await submitted(service, "data.num_clients=2", *more)
    for client in ("a", "b"):
        come(service, client)
    await asyncio.sleep(0)  # the run has opened its port
    return service.hosted[run_id]


async def ended(service: Service, run_id: str) -> Entry:
    """Wait until a run is over in the queue, and return its entry."""
    while (entry := service.queue.find(run_id)).state != "over":
        await asyncio.sleep(0.01)
    return entry


async def listed(clerk: Clerk) -> Runs:
    """Return what a service tells of its runs."""
    runs = await clerk.carry_out(ListRuns())
    assert isinstance(runs, Runs)
    return runs
