"""A standing coordinator in this very process: no clients but those that a test brings in, no aggregator at hand."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.clients.door import Arrival
from coordinator.service.clerk import Clerk
from coordinator.service.daemon import Service
from coordinator.service.orders import Done, Submit
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


def fill_the_disk(service: Service, patch: pytest.MonkeyPatch) -> None:
    """Let nothing more be written to the queue."""

    def put(entry: Entry) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(service.queue, "put", put)


def come(service: Service, client: str, **device: Any) -> None:
    """Let a client that stays say hello."""
    hello = Hello((1, 3), client, 1, device=device)
    service.foyer.take(Arrival(client.encode(), None, hello, None, [b""], None), asyncio.get_running_loop().time())
