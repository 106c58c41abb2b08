"""A run's status for people, and for programs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coordinator.clients.awaited import FOR_SPACE
from coordinator.clients.device import read_device
from coordinator.service.queue import service_goes_on
from coordinator.status.client_phases import ClientStatus
from coordinator.status.reading import LITTLE_BYTES, Status
from coordinator.store.run_folder import RunFolder
from coordinator.table import Row, aligned
from coordinator.units import show_accuracy, show_bytes, show_seconds
from coordinator.whereabouts import IN_WORDS, NO_PROCESS

Columns = dict[str, tuple[str, Callable[[Any], str]]]
"""By title, the figure of a client that a column has, and how that is shown."""

BESIDE_A_SERVICE = " --set transport.bind=HOST:PORT, an address beside the service's, to which its clients are to go"
"""What a process that goes on with a run of a service at work needs."""

NOW: Columns = {"phase": ("phase", str), "silent for": ("silent_s", show_seconds)}

LAST_EXCHANGE: Columns = {
    "round": ("round", str),
    "update": ("status", str),
    "training": ("train_s", show_seconds),
    "turnaround": ("turnaround_s", show_seconds),
    "up": ("up_bytes", show_bytes),
    "down": ("down_bytes", show_bytes),
}


def json_status(status: Status, indent: int | None = None) -> str:
    """Return the status for programs, in one line unless it is to be indented, in ASCII whatever names there are."""
    return json.dumps(msgspec.to_builtins(status), indent=indent)


def format_status(status: Status) -> str:
    """Return the status for people."""
    sections = (
        _standing(status),
        _space(status),
        _waiting(status),
        _counted("turned away", status.turned_away),
        _counted("messages not delivered", status.undelivered),
        _accuracy(status),
        _clients(status),
        _connections(status),
        _devices(status),
    )
    return "\n".join(line for section in sections for line in section)


def _standing(status: Status) -> list[str]:
    outcome, last_s = status.outcome, status.last_round_s
    state = status.state if status.state == "queued" else f"in round {status.round}"
    if outcome:
        state = f"over ({outcome}: {status.reason})" if status.reason else f"over ({outcome})"
    took = f", the last in {show_seconds(last_s)}" if last_s is not None else ""
    failed = f", {status.rounds_failed} failed" if status.rounds_failed else ""
    return [
        f"{status.run_id}: {status.method}, {state}",
        f"rounds: {status.rounds_completed} of {status.num_rounds} completed{failed}{took}",
        *way_on(status),
        *_open_exchange(status),
    ]


def way_on(status: Status) -> list[str]:
    """Return the line that says how the run goes on, where it does not do so by itself."""
    outcome = status.outcome
    is_spent = status.rounds_completed + status.rounds_failed >= status.num_rounds
    if outcome in ("interrupted", "cancelled") or (outcome == "failed" and not is_spent):
        return [_how_to_go_on(status)]
    if status.service_is_at_work:
        return []
    if status.state == "unfinished":
        return [f"{IN_WORDS[status.state]}; {_how_to_go_on(status)}"]
    if status.state in ("stopped", "queued"):
        return [f"{NO_PROCESS}; {_how_to_go_on(status)}"]
    return []


def _open_exchange(status: Status) -> list[str]:
    """Return what has come of the open exchange, and whom and what the run waits for."""
    if status.outcome:
        return []
    lines = [status.waits_for] if status.waits_for else []
    if status.cohort:
        missing = sorted(set(status.cohort) - set(status.answered))
        waits = f", waiting for {', '.join(missing)}" if missing and not status.waits_for else ""
        lines.insert(0, f"{exchange_in_words(status)}: {len(status.answered)}/{len(status.cohort)} updates{waits}")
    return lines


def exchange_in_words(status: Status) -> str:
    """Return which exchange is open: by its name, or else by its number."""
    if status.exchange_name is None:
        return f"exchange {status.exchange} (counted from 0)"
    return f"exchange {status.exchange_name!r}"


def _how_to_go_on(status: Status) -> str:
    if status.begun_as is not None:
        path = Path(status.folder).resolve()
        names = f"{shlex.quote(str(path))} {shlex.quote(str(path.with_name(status.begun_as)))}"
        return f"to go on: first give the folder the name again that the run was begun with: mv {names}"
    is_given_up = "max_failed_rounds" in status.reason
    if status.service is None or is_given_up:
        larger = " --set round.max_failed_rounds=N" if is_given_up else ""
        beside = BESIDE_A_SERVICE if status.service_is_at_work else ""
        return RunFolder(Path(status.folder)).how_to_go_on(status.mode or "serve") + larger + beside
    if status.outcome:
        return f"to go on: coordinator resume {status.run_id}"
    return service_goes_on(Path(status.service))


def _space(status: Status) -> list[str]:
    """Return the line that says what a run at work waits for where its disk is full: it cannot store that."""
    if status.process is None or status.free_bytes is None or status.free_bytes >= LITTLE_BYTES:
        return []
    left = f"its disk has {show_bytes(status.free_bytes)} free"
    if status.waits_for and status.waits_for.startswith(FOR_SPACE):
        return [f"{left}: the run goes on when there is room"]
    return [f"{left}: where that is too little for what it stores, the run waits until there is room"]


def _waiting(status: Status) -> list[str]:
    return [f"{client} waits for {what}" for client, what in sorted(status.waiting.items())]


def _counted(what: str, counts: Mapping[str, int]) -> list[str]:
    told = [f"{name} {count}" for name, count in sorted(counts.items())]
    return [f"{what}: {', '.join(told)}"] if told else []


def _accuracy(status: Status) -> list[str]:
    if not status.accuracy:
        return []
    rows = [Row(rule, [show_accuracy(last), str(round)]) for rule, (round, last) in status.accuracy.items()]
    return ["", *aligned(Row("accuracy by rule", ["last", "in round"]), rows)]


def _clients(status: Status) -> list[str]:
    """Return the lines of the clients: what each did when that was last stored, and its last exchange."""
    is_live = status.seen_s_ago is not None
    told = {client: line for client, line in status.clients.items() if is_live or line.round is not None}
    has_exchange = any(line.round is not None for line in told.values())
    columns = (NOW if is_live else {}) | (LAST_EXCHANGE if has_exchange else {})

    def cells(line: ClientStatus) -> list[str]:
        figures = [(getattr(line, name), show) for name, show in columns.values()]
        return ["n/a" if figure is None else show(figure) for figure, show in figures]

    rows = [Row(client, cells(line)) for client, line in told.items()]
    title = "clients' last exchanges" if status.seen_s_ago is None else f"clients {show_seconds(status.seen_s_ago)} ago"
    return ["", *aligned(Row(title, list(columns)), rows, sys.maxsize)] if rows else []


def _connections(status: Status) -> list[str]:
    """Return the lines of what the kernel has counted, as of the last exchange's opening or close."""
    rows = [
        Row(
            client,
            [
                show_bytes(link["up_bytes"]),
                show_bytes(link["down_bytes"]),
                str(link["num_connections"]),
                str(link["num_retransmits"]),
                "n/a" if link["rtt_s"] is None else show_seconds(link["rtt_s"]),
            ],
        )
        for client, link in sorted(status.connections.items())
    ]
    header = Row("clients' connections", ["up", "down", "number", "retransmits", "round trip"])
    return ["", *aligned(header, rows)] if rows else []


def _devices(status: Status) -> list[str]:
    devices = {client: read_device(told) for client, told in sorted(status.devices.items())}
    rows = [
        Row(client, [device.title, device.cpu, device.gpu or "none", show_bytes(device.memory_bytes)], device.sensors)
        for client, device in devices.items()
    ]
    return ["", *aligned(Row("clients' devices", ["board", "processor", "GPU", "memory"]), rows)] if rows else []
