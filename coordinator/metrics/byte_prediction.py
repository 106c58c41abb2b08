"""What an exchange should cost, from what a client has announced and how far the run is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

from models.methods.api import Exchange, Facts, Method
from models.methods.faults import MethodError, asked, expect
from models.spec import RunSpec
from wire.messages import Ready
from wire.payload import Record, Sizes


class Prediction(NamedTuple):
    """Elements and payload bytes of one client's downlink and uplink."""

    down: Sizes
    up: Sizes


class RunFacts(NamedTuple):
    """The facts of a run that all its clients share, see `Facts`."""

    config: Any
    known_classes: Collection[int]
    round: int
    rounds_completed: int
    num_task_classes: int
    num_seen: int
    metrics: Mapping[str, float | None]


def facts_of(spec: RunSpec, ready: Ready, run: RunFacts) -> Facts:
    """Return what a method may predict one client's bytes from."""
    class_counts = train_counts(spec, ready, run.round)
    return Facts(
        config=run.config,
        num_classes=spec.num_classes,
        num_public_classes=spec.data.num_public_classes,
        feature_dim=ready.feature_dim,
        num_train=sum(class_counts),
        class_counts=class_counts,
        num_parameters=ready.num_parameters,
        num_buffers=ready.num_buffers,
        known_classes=run.known_classes,
        round=run.round,
        rounds_completed=run.rounds_completed,
        num_task_classes=run.num_task_classes,
        num_seen=run.num_seen,
        metrics=run.metrics,
    )


def train_counts(spec: RunSpec, ready: Ready, round: int) -> list[int]:
    """Return how many train samples of each class a client has for the task of this round."""
    plan = spec.plan
    if plan.is_trivial:
        return ready.class_counts
    classes = plan.classes(plan.task_of(round))
    return [count if label in classes else 0 for label, count in enumerate(ready.class_counts)]


def classes_held(counts: Sequence[int]) -> list[int]:
    """Return the classes of which there are train samples."""
    return [label for label, count in enumerate(counts) if count > 0]


def predict(method: Method, exchange_index: int, facts: Facts, value_dtype: str) -> Prediction:
    """Predict an exchange, or the evaluation.

    Raises:
        MethodError: the method gives no sizes, or none for a symbol.
    """
    exchange = method.exchange(exchange_index)
    return Prediction(
        _sizes(exchange, "downlink_dims", exchange.downlink, downlink_dims(exchange, facts), value_dtype),
        _sizes(exchange, "uplink_dims", exchange.uplink, uplink_dims(exchange, facts), value_dtype),
    )


def downlink_dims(exchange: Exchange, facts: Facts) -> Mapping[str, int]:
    """Return the sizes that a method gives of a downlink, by symbol.

    Raises:
        MethodError: it gives none.
    """
    with asked(f"exchange {exchange.name!r}: downlink_dims"):
        return _dims(exchange.downlink_dims(facts))


def uplink_dims(exchange: Exchange, facts: Facts) -> Mapping[str, int]:
    """Return those of an uplink; see `downlink_dims`."""
    with asked(f"exchange {exchange.name!r}: uplink_dims"):
        return _dims(exchange.uplink_dims(facts))


def _dims(given: Any) -> Mapping[str, int]:
    sizes: Mapping[str, Any] = expect(Mapping, given, "sizes by symbol")
    for symbol, size in sizes.items():
        expect(Integral, size, f"a whole number as {symbol}")
    return sizes


def _sizes(exchange: Exchange, half: str, record: type[Record], dims: Mapping[str, int], value_dtype: str) -> Sizes:
    try:
        return record.sizes(dims, value_dtype)
    except KeyError as error:
        expected = f"expected the size of every symbol of {record.__name__}"
        raise MethodError(f"exchange {exchange.name!r}: {half}: {expected}, got none of {error}") from None


def sure_dims(spec: RunSpec, exchange: Exchange, run: RunFacts, readies: Iterable[Ready]) -> dict[str, int]:
    """Return the sizes in a downlink that are the same for all of these clients, whatever classes are known."""
    runs = [run._replace(known_classes=range(known), num_seen=known) for known in (0, spec.num_classes)]
    first, *others = (downlink_dims(exchange, facts_of(spec, ready, each)) for ready in readies for each in runs)
    agreed = {symbol: size for symbol, size in first.items() if all(dims.get(symbol) == size for dims in others)}
    return {"K": spec.num_classes, "D": spec.model.feature_dim, **agreed}


def unlike_clients(spec: RunSpec) -> list[Ready]:
    """Return two clients that have nothing in common but what the run's settings say."""
    width = spec.model.feature_dim
    return [Ready(0, num, num, [num] * spec.num_classes, width, num, num) for num in (1_000_000, 2_000_000)]


class Announcements:
    """The latest word of each client, and what follows from it, made once until something changes it."""

    def __init__(self, spec: RunSpec, method: Method, run_facts: Callable[[], RunFacts]) -> None:
        self._spec = spec
        self._method = method
        self._run_facts = run_facts
        self._run: RunFacts | None = None
        self._facts: dict[str, Facts] = {}
        self.readies: dict[str, Ready] = {}
        """What each client has announced."""

    def take(self, client: str, ready: Ready) -> None:
        """Take in what a client announces."""
        self.readies[client] = ready
        self._facts.pop(client, None)

    def forget_facts(self) -> None:
        """Make facts anew: those of the run have changed."""
        self._facts.clear()
        self._run = None

    def facts(self, client: str) -> Facts:
        """Return what this client's bytes are predicted from.

        Raises:
            KeyError: the client has not announced itself.
        """
        if client not in self._facts:
            self._run = self._run or self._run_facts()
            self._facts[client] = facts_of(self._spec, self.readies[client], self._run)
        return self._facts[client]

    def sure_dims(self, exchange: Exchange, client: str | None) -> dict[str, int]:
        """Return the sizes in a run's first downlink that are known beforehand: for this client, or else for any."""
        readies = unlike_clients(self._spec) if client is None else [self.readies[client]]
        return sure_dims(self._spec, exchange, self._run_facts()._replace(round=1), readies)

    def prediction(self, client: str, exchange_index: int) -> Prediction | None:
        """Return what an exchange of this client should cost, None if it has not announced itself."""
        if client not in self.readies:
            return None
        return predict(self._method, exchange_index, self.facts(client), self._spec.wire.value_dtype)
