"""Where a run stands, as its store has it: what rounds, conductor and accounts go on from.

A new run's store is empty, and what follows from it is the very beginning; so every process of a run starts alike. A
kill leaves one of these:

    an exchange of a round is open      it goes on with its downlink, its cohort and the updates that are stored
    the evaluation is open              the same
    m exchanges of a round are closed   the next one is opened for the same cohort, from the latest state
    no exchange of a round is closed    the round is opened, from the state at its start
    all rounds are closed               the evaluation is opened, unless that is closed too
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from coordinator.aggregator import commands
from coordinator.aggregator.half import Constant
from coordinator.metrics.links import StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.metrics.since_start import SentConstants
from coordinator.metrics.tally import ClientLine, Cost, ExchangeLine, Refusals, Report, read_line
from coordinator.round_rules import Position
from coordinator.store.run_folder import run_token
from coordinator.store.store import Store
from coordinator.store.stored import (
    ClosedExchange,
    StoredConstant,
    StoredExchange,
    StoredPosition,
    StoredUpdate,
)
from coordinator.store.stored_facts import StoredFacts
from models.methods.api import Method
from wire.encoding import Packed, decode, encode
from wire.limits import PIPE_BYTES
from wire.messages import Ready, Task, Update
from wire.timing import split_timing


class HeldUpdate(NamedTuple):
    """An update of the open exchange; `packed` is without its buffer if that lies in a file."""

    client: str
    num_train: int
    packed: Packed
    is_spilled: bool
    task_cost: Cost
    cost: Cost
    report: Report


class Standing(msgspec.Struct, frozen=True):
    """All that a process of a run goes on from; by default the very beginning.

    Attributes:
        position: where the rounds go on.
        constants: the run constants, None if they have not been made.
        num_train: the train samples of the run, None before its first round opened.
        start_classes: the classes that the state knows which the run started from, None if that is the initial one.
        init_from: where that state comes from, None if it is the initial one.
        start_state: the server half at the start of the round.
        latest_state: the server half as it is.
        announced: the last word of each client.
        downlink: that of the open exchange, None if there is none.
        updates: those that the open exchange has, in client-id order.
        turned_away: what was turned away at the port, by kind.
        undelivered: how many messages could not be sent, by client.
        misfits: how many updates of each client were refused for what is in them.
        refusals: all updates that were not taken, as far as that was stored.
        sent_constants: what run constants each client was sent.
        links: what the kernel had counted of each client.
        devices: what each client says of its device.
    """

    position: Position = msgspec.field(default_factory=Position)
    constants: list[Constant] | None = None
    num_train: int | None = None
    start_classes: frozenset[int] | None = None
    init_from: Origin | None = None
    start_state: Packed | None = None
    latest_state: Packed | None = None
    announced: dict[str, Ready] = msgspec.field(default_factory=dict)
    downlink: Packed | None = None
    updates: list[HeldUpdate] = msgspec.field(default_factory=list)
    turned_away: dict[str, int] = msgspec.field(default_factory=dict)
    undelivered: dict[str, int] = msgspec.field(default_factory=dict)
    misfits: dict[str, int] = msgspec.field(default_factory=dict)
    refusals: Refusals = msgspec.field(default_factory=Refusals)
    sent_constants: Mapping[str, SentConstants] = msgspec.field(default_factory=dict)
    links: StoredLinks = msgspec.field(default_factory=StoredLinks)
    devices: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class Told(NamedTuple):
    """What the store of a run does not say of it.

    Attributes:
        run_id: its id.
        is_encrypted: whether its messages are, which they cost more on the wire for.
        is_told: whether nobody waits to hear of its end, if it is over.
    """

    run_id: str
    is_encrypted: bool
    is_told: bool


def read_standing(store: Store, facts: StoredFacts, found: StoredPosition, method: Method, told: Told) -> Standing:
    """Return where the run stands, given what its store says of it as a whole and of its rounds."""
    closed = store.closed_exchanges(found.next_round)
    is_evaluated = any(method.is_evaluation(one.exchange) for one in store.closed_exchanges(found.next_round - 1))
    position = replace(rounds_position(found, closed, is_evaluated), is_told=told.is_told)
    standing = Standing(
        position=position,
        constants=[_constant(constant) for constant in store.constants()] if facts.begun is not None else None,
        num_train=facts.num_train,
        start_classes=facts.start_classes,
        init_from=facts.init_from,
        start_state=packed_frames(*found.start_state) if found.start_state else None,
        latest_state=packed_frames(*found.latest_state) if found.latest_state else None,
        turned_away=facts.turned_away,
        undelivered=facts.undelivered,
        misfits=facts.misfits,
        refusals=facts.refusals,
        sent_constants=facts.sent_constants,
        links=facts.links,
        devices=store.devices(),
        announced=store.announced(),
    )
    if found.open_exchange is None:
        return standing
    downlink = packed_frames(found.open_exchange.downlink_header, found.open_exchange.downlink_buffer)
    updates = _held_updates(store, found.open_exchange, position, run_token(told.run_id), downlink, told.is_encrypted)
    return replace(standing, downlink=downlink, updates=list(updates))


def rounds_position(found: StoredPosition, closed: Sequence[ClosedExchange], is_evaluated: bool) -> Position:
    """Return where the rounds go on.

    Args:
        found: where the store is.
        closed: the closed exchanges of its next round.
        is_evaluated: whether the evaluation after the round before that one is closed.
    """
    opened = found.open_exchange
    exchange, cohort = (len(closed), closed[-1].cohort) if closed else (None, ())
    if opened is not None:
        exchange, cohort = opened.exchange, opened.cohort
    return Position(
        next_round=opened.round if opened else found.next_round,
        base=found.base_round,
        failed_in_a_row=found.failed_in_a_row,
        kept=found.kept,
        exchange=exchange,
        cohort=frozenset(cohort),
        answered=frozenset(update.client for update in opened.updates) if opened else frozenset(),
        accepted=frozenset(closed[-1].accepted) if closed else frozenset(),
        is_evaluated=is_evaluated,
    )


def stored_lines(store: Store, method: Method) -> Iterator[str]:
    """Yield the lines of all that is closed, in the order in which a run that is never restarted writes them."""
    records = deque(store.round_records())
    for text in store.metric_lines():
        line = read_line(text)
        is_evaluation = isinstance(line, ClientLine | ExchangeLine) and method.is_evaluation(line.exchange_index)
        while records and records[0].round < line.round + is_evaluation:
            yield records.popleft().line
        yield text
    yield from (record.line for record in records)


def _held_updates(
    store: Store, opened: StoredExchange, position: Position, token: int, downlink: Packed, is_encrypted: bool
) -> Iterator[HeldUpdate]:
    for stored in opened.updates:
        kept = position.kept_of(stored.client)
        task = encode(Task(token, opened.round, opened.exchange, kept, position.base), downlink, PIPE_BYTES)
        yield _held_update(stored, store, Cost.of(downlink, task, is_encrypted), is_encrypted)


def _held_update(stored: StoredUpdate, store: Store, task_cost: Cost, is_encrypted: bool) -> HeldUpdate:
    """Return an update; what it cost follows from its bytes, so those that lie in a file are read for a moment."""
    is_spilled = stored.buffer is None
    buffer = stored.buffer
    if buffer is None:
        buffer = store.load_buffer(stored.round, stored.exchange, stored.client)
    frames, timing = split_timing([stored.header, memoryview(buffer), *filter(None, [stored.report])])
    update, packed = decode(frames, max_bytes=PIPE_BYTES)
    assert isinstance(update, Update)
    assert packed is not None
    cost, report = Cost.of(packed, frames, is_encrypted), Report.of(update.evaluations, timing)
    held = packed._replace(buffer=b"") if is_spilled else packed
    return HeldUpdate(stored.client, stored.num_train, held, is_spilled, task_cost, cost, report)


def _constant(stored: StoredConstant) -> Constant:
    return Constant(stored.name, stored.digest, packed_frames(stored.header, stored.buffer))


def packed_frames(header: bytes, buffer: bytes) -> Packed:
    """Return what a message of the pipe carries, of which these frames are kept."""
    _, packed = decode([header, buffer], commands.COMMANDS, PIPE_BYTES)
    assert packed is not None
    return packed
