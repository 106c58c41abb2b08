"""What the store holds of a run as a whole, beside its rounds: one text a fact, a word as it is, all else as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.clients.waiting import Presence
from coordinator.metrics.links import StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.metrics.since_start import SentConstants
from coordinator.metrics.tally import Refusals
from models.settings import Tables

SENT_CONSTANTS = "constants:"
"""Begins the name of a fact that each client has one of: what run constants it was sent. Its id follows."""


class StoredFacts(msgspec.Struct, frozen=True):
    """The facts; one that was never stored, as by an older program, has the value that it begins with.

    Attributes:
        mode: the command that began the run; of a store that was not finished, nothing.
        modules: the folder of a user's own modules.
        run_id: its id.
        settings: those that it was begun with.
        start_classes: the classes that the state knows which the run started from, None if that is the initial one.
        init_from: where that state comes from, None if it is the initial one.
        begun: None until the run constants are made.
        num_train: the train samples of the run, None before its first round opened.
        turned_away: what was turned away at the port, by kind.
        undelivered: how many messages could not be sent, by client.
        misfits: how many updates of each client were refused for what is in them.
        refusals: all updates that were not taken, as far as that was stored.
        waiting: what the clients who do not work now wait for.
        presence: who was here when that was last stored.
        links: what the kernel had counted of each client by then.
        sent_constants: what run constants each client was sent.
    """

    mode: str = ""
    modules: str = ""
    run_id: str = ""
    settings: Tables | None = None
    start_classes: frozenset[int] | None = None
    init_from: Origin | None = None
    begun: str | None = None
    num_train: int | None = None
    turned_away: dict[str, int] = {}
    undelivered: dict[str, int] = {}
    misfits: dict[str, int] = {}
    refusals: Refusals = Refusals()
    waiting: dict[str, str] = {}
    presence: Presence | None = None
    links: StoredLinks = StoredLinks()
    sent_constants: dict[str, SentConstants] = {}


WORDS = frozenset({"mode", "modules", "run_id", "begun"})
"""The facts that are no JSON."""


def text_of(value: Any) -> str:
    """Return a fact that is no word as it is stored."""
    return msgspec.json.encode(value).decode()


def facts_from(texts: Mapping[str, str]) -> StoredFacts:
    """Return the facts that these texts are, by name; names that nobody knows are passed over.

    Raises:
        msgspec.MsgspecError: one is damaged.
    """
    known = {name: texts[name] for name in texts if name in StoredFacts.__struct_fields__}
    facts = {name: text if name in WORDS else msgspec.json.decode(text) for name, text in known.items()}
    sent = {
        name.removeprefix(SENT_CONSTANTS): msgspec.json.decode(text)
        for name, text in texts.items()
        if name.startswith(SENT_CONSTANTS)
    }
    return msgspec.convert({**facts, "sent_constants": sent}, StoredFacts)
