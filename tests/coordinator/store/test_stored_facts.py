"""What the store holds of a run as a whole comes back as it was put, and what nobody put has its first value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.clients.waiting import Presence
from coordinator.metrics.links import LinkCounts, StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.metrics.tally import Refusals, Traffic
from coordinator.store.store import Store, StoreError
from coordinator.store.stored import read_facts, reading
from coordinator.store.stored_facts import SENT_CONSTANTS, WORDS, StoredFacts, facts_from, text_of
from models.spec import ConfigError
from tests.coordinator.stores import call, unexpected

WHOLE: dict[str, Any] = {
    "mode": "serve",
    "modules": "/srv/parts",
    "run_id": "fedproto-1",
    "settings": {"run": {"seed": 3}},
    "start_classes": frozenset({0, 2}),
    "init_from": Origin("fedproto-0", 3, "a1"),
    "begun": "",
    "num_train": 35,
    "turned_away": {"handshake": 2},
    "undelivered": {"ann": 1},
    "misfits": {"bob": 3},
    "refusals": Refusals(stale=1),
    "waiting": {"ann": "power"},
    "presence": Presence(5.0, "waiting for bob", {"ann": 4.0}, frozenset({"ann"})),
    "links": StoredLinks({"ann": LinkCounts()}),
}


def test_all_facts_come_back() -> None:
    texts = {name: value if name in WORDS else text_of(value) for name, value in WHOLE.items()}
    sent = {"0f": Traffic(payload_bytes=8)}
    texts |= {f"{SENT_CONSTANTS}ann": text_of(sent), "of_a_later_program": "unknown"}
    assert facts_from(texts) == StoredFacts(**WHOLE, sent_constants={"ann": sent})
    assert {*WHOLE, "sent_constants"} == set(StoredFacts.__struct_fields__)


def test_of_an_empty_store_nothing_is_known() -> None:
    assert facts_from({}) == StoredFacts()


@pytest.mark.parametrize("text", ["", "[1]", '"many"'])
def test_a_damaged_fact_is_an_error(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        facts_from({"num_train": text})


def test_a_store_with_a_damaged_fact_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path, call, unexpected)
    store.put_meta("num_train", "many")
    store.close()
    with pytest.raises(ConfigError, match=rf"{path}: expected the store of a run: JSON"), reading(path) as connection:
        read_facts(connection)
    store = Store(path, call, lambda error: None)
    with pytest.raises(StoreError, match=rf"store {path}: JSON is malformed"):
        store.facts()
    store.close()
