"""Each client of a run, by what is stored: what it does now, and how its last exchange ended.

    loading    it is here, and gets its data and model ready
    ready      it can work, and has nothing to do
    working    it has been asked in the open exchange, and has not answered
    waiting    it does not work now, for a reason of its own
    answered   its update of the open exchange is in hand
    gone       it was here, and is no more
    absent     it has not been seen since the run was last started

Of a run that no process of this machine has, no phase is known.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from coordinator.clients.waiting import Presence
from coordinator.metrics.tally import ClientLine, read_line
from coordinator.store.stored import StoredExchange, read_announced
from models.methods.exchange import EVALUATION


class ClientStatus(msgspec.Struct, frozen=True):
    """What a client does, and its last closed exchange of a round; None where there is none.

    Attributes:
        phase: one of those above, None if no process of this machine has the run.
        silent_s: for how long nothing had been heard of it when that was last stored.
        in_round: the round of the open exchange, if it takes part in that.
        round: that of its last closed exchange.
        exchange: the name of that.
        status: how it ended, as the run's accounts have it.
        train_s: how long training took.
        turnaround_s: the time from its task to its update.
        up_bytes: its update's encoded size.
        down_bytes: its task's.
    """

    phase: str | None = None
    silent_s: float | None = None
    in_round: int | None = None
    round: int | None = None
    exchange: str | None = None
    status: str | None = None
    train_s: float | None = None
    turnaround_s: float | None = None
    up_bytes: int | None = None
    down_bytes: int | None = None


def read_clients(
    connection: sqlite3.Connection, opened: StoredExchange | None, presence: Presence | None, waiting: Collection[str]
) -> dict[str, ClientStatus]:
    """Return each client that is known.

    Args:
        connection: the run's store.
        opened: the open exchange.
        presence: who was here when that was last stored, None if no process has the run.
        waiting: who does not work now, for a reason of its own.
    """
    last, asked = dict(_last_exchanges(connection)), _asked(opened)
    seen = (*presence.heard_at_s, *presence.gone_at_s) if presence is not None else ()
    return {
        client: replace(
            last.get(client, ClientStatus()),
            phase=_phase(client, asked, presence, waiting) if presence is not None else None,
            silent_s=presence.silent_s(client) if presence is not None else None,
            in_round=opened.round if opened is not None and client in asked else None,
        )
        for client in sorted({*read_announced(connection), *asked, *seen, *last})
    }


def _asked(opened: StoredExchange | None) -> dict[str, str]:
    """Return who takes part in the open exchange, and the phase of each as long as it is here."""
    if opened is None:
        return {}
    return {**dict.fromkeys(opened.cohort, "working"), **{update.client: "answered" for update in opened.updates}}


def _phase(client: str, asked: Mapping[str, str], presence: Presence, waiting: Collection[str]) -> str:
    if client in presence.gone_at_s:
        return "gone"
    if asked.get(client) == "answered":
        return "answered"
    if client not in presence.heard_at_s:
        return "absent"
    if client in waiting:
        return "waiting"
    return asked.get(client, "ready") if client in presence.ready else "loading"


def _last_exchanges(connection: sqlite3.Connection) -> Iterator[tuple[str, ClientStatus]]:
    """Yield each client with its last closed exchange of a round."""
    rounds_only = f"client != '' AND json_extract(line, '$.exchange') != '{EVALUATION}'"
    query = f"SELECT line FROM metrics WHERE id IN (SELECT max(id) FROM metrics WHERE {rounds_only} GROUP BY client)"
    for (text,) in connection.execute(query):
        line = read_line(text)
        if isinstance(line, ClientLine):
            yield (
                line.client,
                ClientStatus(
                    round=line.round,
                    exchange=line.exchange,
                    status=line.status,
                    train_s=line.train_s,
                    turnaround_s=line.turnaround_s,
                    up_bytes=line.up.encoded_bytes,
                    down_bytes=line.down.encoded_bytes,
                ),
            )
