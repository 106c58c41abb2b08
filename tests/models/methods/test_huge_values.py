"""What a server half makes of numbers that are finite and far too large: finite ones, or a round that failed."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from models import methods
from models.methods.api import RoundFailedError, Server, Update
from models.spec import DataConfig, ModelConfig
from tests.models.federation import Exchanged, Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.payload import RecordError

HUGE = 3e38

SETTINGS: dict[str, dict[str, Any]] = {"gfpl": {"first_interaction": 1, "interaction_interval": 1}}
"""Those with which every round sends something."""


def federation(name: str, **settings: float) -> Federation:
    public = DataConfig(dataset="tests.models.small_run:load", public_per_class=2, public_classes=2)
    config = {**SETTINGS.get(name, {}), **settings}
    spec = make_spec(name, data=public, model=ModelConfig(feature_dim=32), method_config=config)
    return Federation(spec, {client: make_data(held) for client, held in UNEVEN.items()})


def huge(updates: list[Update], field: str) -> Iterator[Update]:
    """The same updates, two of them with one field of numbers that no training makes."""
    for update in updates:
        entries = np.full_like(getattr(update.record, field), HUGE)
        record = replace(update.record, **{field: entries})
        record.check()
        yield Update(update.client, update.num_train, record if update.client in "ab" else update.record)


def failure(server: Server, done: list[Exchanged], sent: list[list[Update]], at: int, field: str) -> str:
    """Why the exchanges of three rounds, one of them with a field of huge numbers, could not be aggregated, if so."""
    try:
        for round in (2, 3, 4):
            for index, (exchanged, updates) in enumerate(zip(done, sent, strict=True)):
                came = huge(updates, field) if index == at else iter(updates)
                server.aggregate(round, exchanged.exchange.name, came)
    except (RoundFailedError, RecordError) as error:
        return str(error)
    return ""


def not_finite(run: Federation) -> set[str]:
    held = dict(run.server.arrays())
    for exchange in run.method.exchanges:
        held |= run.server.configure(5, exchange.name).to_payload().arrays
    return {name for name, array in held.items() if not np.isfinite(array).all()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", methods.names())
def test_no_state_ever_holds_what_is_no_number(name: str) -> None:
    run = federation(name)
    run.round(1)
    start = {key: array.copy() for key, array in run.server.arrays().items()}
    done = run.round(2)
    sent = [list(run.updates(exchanged)) for exchanged in done]
    for at, exchanged in enumerate(done):
        for field in (each.name for each in fields(exchanged.exchange.uplink) if each.metadata["kind"] == "values"):
            run.server.load(start)
            why = failure(run.server, done, sent, at, field)
            assert not why or "diverged; " in why or f"field {field!r}" in why
            assert not_finite(run) == set(), field


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "what"), [("headcal", "calibrated"), ("hgp", "rebalanced")])
def test_a_head_that_diverges_fails_the_round(name: str, what: str) -> None:
    run = federation(name, rebalance_lr=1e38, rebalance_epochs=50)
    with pytest.raises(RoundFailedError, match=rf"round 1: the {what} head diverged; lower \[method\] rebalance_lr"):
        run.round(1)
    assert not_finite(run) == set()
