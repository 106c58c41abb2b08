"""A method's server half in this process: what the aggregator runs behind its pipe, and the simulator directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from coordinator.aggregator.half import Aggregate, Constant
from models.checkpoint import state_hash
from models.methods import find, read_config
from models.methods.api import Exchange, RoundFailedError, Update
from models.methods.faults import MethodError, arrays_in, asked, expect, made_by, shown
from models.spec import RunSpec
from wire.encoding import Packed, pack
from wire.payload import Payload, Record


class LocalHalf:
    """The server half of a run, in the given state; an empty one is that before round 1. What it gives is packed."""

    def __init__(self, spec: RunSpec, state: Payload, num_train: int = 0) -> None:
        self._spec = spec
        self._method = find(spec.method)
        config = read_config(self._method, spec.method_config)
        with asked("making of the server half"):
            self._server = self._method.make_server(spec, config)
        self._server.num_train = num_train
        if state.tensors:
            with asked("load of the server half"):
                self._server.load(state.arrays)

    @property
    def global_hash(self) -> str:
        """The hash of the present state."""
        return state_hash(self._arrays())

    def constants(self) -> Iterator[Constant]:
        """Yield the run constants."""
        with asked("constants of the server half"):
            made = expect(Mapping, self._server.constants(), "arrays by name, by the constant's name")
        for name, given in made.items():
            with asked("constants of the server half"):
                arrays = arrays_in(given)
                constant = Constant(name, state_hash(arrays), pack(Payload.of_state(arrays)))
            yield constant

    def configure(self, round: int, exchange: str) -> Packed:
        """Return the downlink of an exchange."""
        what = f"downlink of round {round}, exchange {exchange!r}"
        with asked(what):
            expected = f"a Record, {self._declared(exchange).downlink.__name__}"
            record: Record = expect(Record, self._server.configure(round, exchange), expected)
            payload = record.to_payload(self._spec.wire.value_dtype)
        with made_by(what):
            return pack(payload)

    def aggregate(self, round: int, exchange: str, contributions: Iterable[tuple[str, int, Payload]]) -> Aggregate:
        """Take in the accepted uplinks, which were checked at the door, each read when the server half asks for it.

        Raises:
            RoundFailedError: nothing can be made of them.
            MethodError: the server half failed, or what came back are no metrics.
        """
        with asked(f"aggregate of round {round}, exchange {exchange!r}", RoundFailedError):
            metrics: Mapping[str, Any] = expect(
                Mapping,
                self._server.aggregate(round, exchange, self._updates(exchange, contributions)),
                "a mapping of metrics to log, {} for none",
            )
            told = {expect(str, name, "texts as names of metrics"): _number(name, of) for name, of in metrics.items()}
        state = self._arrays()
        with asked("arrays of the server half"):
            payload, found = Payload.of_state(state), state_hash(state)
        with made_by(f"global state after round {round}, exchange {exchange!r}"):
            return Aggregate(pack(payload), found, told)

    def _arrays(self) -> Mapping[str, np.ndarray]:
        with asked("arrays of the server half"):
            return arrays_in(self._server.arrays())

    def _declared(self, exchange: str) -> Exchange:
        return next(one for one in self._method.exchanges if one.name == exchange)

    def _updates(self, exchange: str, contributions: Iterable[tuple[str, int, Payload]]) -> Iterator[Update]:
        declared = self._declared(exchange)
        for client, num_train, payload in contributions:
            yield Update(client, num_train, declared.uplink.of_checked(payload))


def _number(name: str, number: Any) -> float:
    try:
        return float(number)
    except (TypeError, ValueError):
        raise MethodError(f"expected a number as metric {name!r}, got {shown(number)}") from None
