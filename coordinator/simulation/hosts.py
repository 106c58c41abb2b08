"""Where the work for simulated clients is done: in this process, or wherever another `ClientHost` has it done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator.aggregator.half import Constant
from coordinator.simulation.clients import Announced, Assignment, Done, Setup, VirtualClients
from models.data import ClientParts
from models.steps import AbandonedError
from wire.encoding import unpack

if TYPE_CHECKING:
    import numpy as np


class ClientHost(Protocol):
    """Does the work for clients; who comes first says nothing, and the result does not depend on it."""

    def begin(self, clients: Sequence[str], constants: Sequence[Constant]) -> AsyncGenerator[Announced, None]:
        """Yield what each of these clients announces."""

    def perform(self, assignment: Assignment, kept: Mapping[str, int]) -> AsyncGenerator[Done, None]:
        """Yield what each client of `kept` has done; the last round of each whose outcome stands is its value there."""

    def stop(self) -> None:
        """Let what is being yielded end before its time; a signal's handler may call this."""

    async def close(self) -> None:
        """Let go of everything."""

    def peak_rss_bytes(self) -> int | None:
        """Return the peak resident memory of the largest process that works for clients, None if there is no other."""


class _StoppedError(AbandonedError):
    """The work at hand is left undone."""


class OwnClients:
    """Works for clients in this process, one after the other."""

    def __init__(self, setup: Setup, parts: ClientParts) -> None:
        self._setup = setup
        self._parts = parts
        self._clients: VirtualClients
        self._stopped = False

    async def begin(self, clients: Sequence[str], constants: Sequence[Constant]) -> AsyncGenerator[Announced, None]:
        """Yield what each of these clients announces."""
        self._clients = VirtualClients(self._setup, self._parts, constants_of(constants))
        for client in clients:
            await asyncio.sleep(0)
            if self._stopped:
                return
            yield self._clients.announce(client)

    async def perform(self, assignment: Assignment, kept: Mapping[str, int]) -> AsyncGenerator[Done, None]:
        """Yield what each client of `kept` has done."""
        with contextlib.suppress(_StoppedError):
            for done in self._clients.perform(assignment, kept, self._check):
                yield done
                await asyncio.sleep(0)
                self._check()

    def _check(self, done: int = 0, total: int = 0) -> None:
        """Leave the work at hand if there is to be no more; called after each step of a training, too."""
        if self._stopped:
            raise _StoppedError

    def stop(self) -> None:
        """End before the next client's turn, or the next step of its training."""
        self._stopped = True

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def peak_rss_bytes(self) -> None:
        """Return nothing: clients have no process of their own."""
        return


def constants_of(made: Sequence[Constant]) -> dict[str, Mapping[str, np.ndarray]]:
    """Return the run constants as a client half takes them."""
    return {constant.name: unpack(constant.packed).arrays for constant in made}
