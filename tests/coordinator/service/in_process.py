"""A standing coordinator in this very process: no clients but those that a test brings in, no aggregator at hand."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import AsyncIterator, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator.clients.door import Arrival, Door
from coordinator.service.clerk import Clerk
from coordinator.service.daemon import Service
from coordinator.service.hosted import Hosted
from coordinator.service.orders import Done, ListRuns, Runs, Submit
from coordinator.service.queue import Entry
from coordinator.service.settings import ServiceConfig, load
from coordinator.service.spare import SpareAggregator
from coordinator.store.run_folder import run_token
from wire.encoding import Frames
from wire.messages import Decline, Hello, Message

UP_S = 10.0


def settings(folder: Path, *more: str) -> ServiceConfig:
    """Return those of a service in this folder, whose path must be short enough for a socket."""
    return load(None, [f"service.dir={folder}", "transport.bind=127.0.0.1:0", "transport.security=none", *more])


@contextlib.asynccontextmanager
async def standing(config: ServiceConfig, cut: Collection[str] = ()) -> AsyncIterator[Service]:
    """Have a service stand for as long as this is entered; it reaches all clients but those that are cut off."""
    up = asyncio.Event()

    def send(door: Door, route: bytes, frames: Frames) -> bool:
        return route.decode() not in cut

    async def prepare(spare: SpareAggregator) -> None:
        up.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpareAggregator, "prepare", prepare)
        patch.setattr(Door, "send", send)
        patch.setattr("coordinator.daemon.FAREWELL_S", 0.0)  # nobody says goodbye
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


def say(service: Service, client: str, message: Message) -> None:
    """Let a client say something by its connection."""
    service._on_arrival(Arrival(client.encode(), None, message, None, [b""], None))


def decline(service: Service, client: str, run_id: str, reason: str) -> None:
    """Let a client that is in a run decline it."""
    say(service, client, Decline(run_token(run_id), reason))


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
