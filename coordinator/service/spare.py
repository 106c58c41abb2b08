"""An aggregator that is started before there is a run for it, so that a run need not wait for an interpreter."""

from __future__ import annotations

from pathlib import Path

from coordinator.aggregator.server_half import MODULE
from coordinator.store.schema import in_words
from wire.sockets.child import Child, thread_environment
from wire.sockets.log import say


class SpareAggregator:
    """One at most; it has the one thread that runs have by default."""

    def __init__(self, log: Path) -> None:
        """Begin with none; `log` is where its output goes until it is told another file."""
        self._log = log
        self._child: Child | None = None

    async def prepare(self) -> None:
        """Start it if there is none."""
        if self._child is None:
            self._child = child = Child(lambda frames: None, self._on_gone, self._log)
            try:
                await child.start(MODULE, (), thread_environment(1))
            except OSError as error:  # a run starts one of its own
                self._child = None
                say(f"no aggregator is at hand: {in_words(error, self._log)}")

    def take(self) -> Child | None:
        """Give it away; None if there is none that has been started."""
        child = self._child
        if child is None or child.pid is None:
            return None
        self._child = None
        return child

    async def stop(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def _on_gone(self, how: str) -> None:
        self._child = None
