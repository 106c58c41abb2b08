"""What an exchange should cost, from what a client has announced and how far the run is."""

from __future__ import annotations

from typing import NamedTuple

from models.methods.api import Exchange, Facts, Method
from models.spec import RunSpec
from wire.messages import Ready
from wire.payload import Nothing, Sizes


class Prediction(NamedTuple):
    """Elements and payload bytes of one client's downlink and uplink."""

    down: Sizes
    up: Sizes


def facts_of(spec: RunSpec, ready: Ready, num_classes_known: int, rounds_completed: int) -> Facts:
    """Return what a method may predict one client's bytes from."""
    return Facts(
        num_classes=spec.num_classes,
        feature_dim=ready.feature_dim,
        num_train=ready.num_train,
        num_classes_held=len(classes_held(ready)),
        num_classes_known=num_classes_known,
        num_parameters=ready.num_parameters,
        num_buffers=ready.num_buffers,
        rounds_completed=rounds_completed,
    )


def classes_held(ready: Ready) -> list[int]:
    """Return the classes that a client has train samples of."""
    return [label for label, count in enumerate(ready.class_counts) if count > 0]


def predict(method: Method, exchange_index: int, facts: Facts, value_dtype: str) -> Prediction:
    """Predict an exchange; the one behind the last, the evaluation, sends the first one's downlink and nothing up."""
    is_evaluation = exchange_index == len(method.exchanges)
    exchange: Exchange = method.exchanges[0 if is_evaluation else exchange_index]
    down = exchange.downlink.sizes(exchange.downlink_dims(facts), value_dtype)
    if is_evaluation:
        return Prediction(down, Nothing.sizes({}))
    return Prediction(down, exchange.uplink.sizes(exchange.uplink_dims(facts), value_dtype))
