"""A method's server half in this process: what the aggregator runs behind its pipe, and the simulator directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from coordinator.half import ServerHalfError
from models.checkpoint import state_hash
from models.methods import find, read_config
from models.methods.api import Update
from models.spec import RunSpec
from wire.payload import Payload


class Aggregated(msgspec.Struct, frozen=True):
    """The server half after an exchange: its whole state, the state's hash, and metrics to log."""

    state: Payload
    global_hash: str
    metrics: dict[str, float]


class LocalHalf:
    """The server half of a run, in the given state; an empty one is that before round 1."""

    def __init__(self, spec: RunSpec, state: Payload, num_train: int = 0) -> None:
        self._spec = spec
        self._method = find(spec.method)
        self._server = self._method.make_server(spec, read_config(self._method, spec.method_config))
        self._server.num_train = num_train
        if state.tensors:
            self._server.load(state.arrays)

    @property
    def global_hash(self) -> str:
        """The hash of the present state."""
        return state_hash(self._server.arrays())

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the run constants by name."""
        return self._server.constants()

    def configure(self, round: int, exchange: str) -> Payload:
        """Return the downlink of an exchange."""
        return self._server.configure(round, exchange).to_payload(self._spec.wire.value_dtype)

    def aggregate(self, round: int, exchange: str, contributions: Iterable[tuple[str, int, Payload]]) -> Aggregated:
        """Take in the accepted uplinks, which were checked at the door, each read when the server half asks for it.

        Raises:
            RoundFailedError: nothing can be made of them.
            ServerHalfError: what came back are no metrics.
        """
        metrics: Any = self._server.aggregate(round, exchange, self._updates(exchange, contributions))
        if not isinstance(metrics, Mapping):
            returned = f"aggregate of exchange {exchange!r} returned {metrics!r:.80}"
            raise ServerHalfError(f"{returned}: expected a mapping of metrics to log, {{}} for none")
        state = self._server.arrays()
        told = {name: float(number) for name, number in metrics.items()}
        return Aggregated(Payload.of_state(state), state_hash(state), told)

    def _updates(self, exchange: str, contributions: Iterable[tuple[str, int, Payload]]) -> Iterator[Update]:
        declared = next(one for one in self._method.exchanges if one.name == exchange)
        for client, num_train, payload in contributions:
            yield Update(client, num_train, declared.uplink.of_checked(payload))
