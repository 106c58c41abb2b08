"""The daemon itself, around its session: what it does in which order, without a coordinator and without a trainer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from edge_client import session_events as session
from edge_client.app import ClientApp
from edge_client.config import load
from tests.edge_client.session_driver import task


@contextlib.contextmanager
def daemon(folder: Path) -> Iterator[ClientApp]:
    """Have one that has begun, on the loop that runs."""
    settings = ["client.id=a", "data.index=0", "coordinator.security=none", f'client.dir="{folder}"']
    app = ClientApp(load(None, settings), folder, None, once=True)
    app._loop = asyncio.get_running_loop()
    app._ended = app._loop.create_future()
    yield app
    app._context.destroy(linger=0)


def test_a_task_goes_to_the_trainer_before_anything_is_measured(tmp_path: Path) -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with daemon(tmp_path) as app:
            app._trainer = cast("Any", SimpleNamespace(send=lambda frames: done.append("sent")))
            app._meter = cast("Any", SimpleNamespace(task_came=lambda *task_at: done.append("measured")))
            app._start_task(session.StartTask(task()))
        return done

    assert asyncio.run(main()) == ["sent", "measured"]


def test_a_run_that_is_left_in_a_task_is_measured_no_more(tmp_path: Path) -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with daemon(tmp_path) as app:
            app._meter = cast("Any", SimpleNamespace(stop=lambda: done.append("stopped")))
            app._end_trainer(session.EndTrainer())
        return done

    assert asyncio.run(main()) == ["stopped"]
