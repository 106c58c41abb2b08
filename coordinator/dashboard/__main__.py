"""`python -m coordinator.dashboard RUN_DIR FD`: serve a run's live page on a bound socket until standard input ends."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from pathlib import Path

from coordinator.dashboard.live import LiveRun
from coordinator.dashboard.web import make_app
from coordinator.store.run_folder import RunFolder

NICENESS = 19
"""The run goes first."""

LAST_WORD_S = 0.5
"""How long browsers have to fetch the last state."""


async def serve(folder: RunFolder, listener: socket.socket, token: str) -> None:
    """Serve until the other end of standard input is closed."""
    import uvicorn

    live, loop = LiveRun(folder), asyncio.get_running_loop()
    config = uvicorn.Config(
        make_app(live, token), log_level="warning", lifespan="off", server_header=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(live.left.set)

    async def leave() -> None:
        await live.left.wait()
        await asyncio.sleep(LAST_WORD_S)
        server.should_exit = True

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    leaving = asyncio.create_task(leave())
    await server.serve(sockets=[listener])
    leaving.cancel()


def main() -> None:
    """Take the token from the first line of standard input, and serve."""
    folder, descriptor = sys.argv[1:]
    os.nice(NICENESS)
    token = sys.stdin.buffer.readline().decode().strip()
    asyncio.run(serve(RunFolder.open(Path(folder)), socket.socket(fileno=int(descriptor)), token))


if __name__ == "__main__":
    main()
