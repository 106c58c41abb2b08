"""`coordinator status RUN_DIR`: where a run stands, read from its store, whether it goes on or not."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

from coordinator import client_api
from coordinator.client_phases import read_clients
from coordinator.device import read_device
from coordinator.run_folder import RunFolder
from coordinator.schema import open_database
from coordinator.series import gather
from coordinator.service.queue import service_goes_on
from coordinator.stored import RoundRecord, read_devices, read_facts, read_position, read_rounds, reading
from coordinator.table import Row, aligned
from coordinator.tally import RoundLine, read_line
from coordinator.units import show_accuracy, show_bytes, show_seconds
from coordinator.whereabouts import Whereabouts, whereabouts
from coordinator.wire_bytes import told_of
from models.spec import ConfigError

CLEAR = "\x1b[H\x1b[2J"
"""Makes a terminal empty and begins at its top."""

RECENT = 20
"""The last accuracy of a rule is looked for in so many rounds."""

Columns = dict[str, tuple[str, Callable[[Any], str]]]
"""By title, the figure of a client that a column has, and how that is shown."""

NOW: Columns = {"phase": ("phase", str), "silent for": ("silent_s", show_seconds)}

LAST_EXCHANGE: Columns = {
    "round": ("round", str),
    "update": ("status", str),
    "training": ("train_s", show_seconds),
    "turnaround": ("turnaround_s", show_seconds),
    "up": ("up_bytes", show_bytes),
    "down": ("down_bytes", show_bytes),
}


def read_status(path: Path) -> dict[str, Any]:
    """Return where the run in this folder stands.

    Raises:
        ConfigError: there is no run folder, or its store cannot be read.
    """
    folder = RunFolder.open(path)
    config = folder.read_tables()
    num_rounds: int = config["run"]["num_rounds"]
    found = whereabouts(folder)
    if config["run"].get("store") == "memory" and found.outcome:
        told = f"kept in memory, and over ({found.outcome}): only its figures are left"
        raise ConfigError(f"{folder.run_id} was {told}; coordinator report {path} --format table tells them")
    with _opened(folder, found.queue is not None) as connection:
        position, records = read_position(connection), read_rounds(connection)
        devices, facts = read_devices(connection), read_facts(connection)
        accuracy = _latest_accuracy(connection, records)
        opened = position.open_exchange
        presence = facts.presence if found.process is not None else None
        clients = read_clients(connection, opened, presence, facts.waiting)
    last = read_line(records[-1].line) if records else None
    return {
        "run_id": folder.run_id,
        "method": config["method"]["name"],
        "folder": str(path),
        "mode": facts.mode or None,
        "state": found.state,
        "outcome": found.outcome or None,
        "reason": found.reason,
        "process": found.process.pid if found.process is not None else None,
        "service": str(found.queue.folder) if found.queue is not None else None,
        "service_is_at_work": client_api.is_at_work(found.queue.folder) if found.queue is not None else None,
        "num_rounds": num_rounds,
        "rounds_completed": sum(record.status == "completed" for record in records),
        "rounds_failed": sum(record.status == "failed" for record in records),
        "round": opened.round if opened else min(position.next_round, num_rounds),
        "exchange": opened.exchange if opened else None,
        "cohort": list(opened.cohort) if opened else [],
        "answered": [update.client for update in opened.updates] if opened else [],
        "last_round_s": last.round_s if isinstance(last, RoundLine) else None,
        "accuracy": accuracy,
        "clients": clients,
        "waits_for": _told_by(found, folder) or (presence.waits_for if presence else None),
        "connected": {client: presence.silent_s(client) for client in presence.heard_at_s} if presence else {},
        "seen_s_ago": max(0.0, time.time() - presence.at_s) if presence else None,
        "waiting": facts.waiting,
        "turned_away": facts.turned_away,
        "undelivered": facts.undelivered,
        "devices": devices,
        "connections": {client: told_of(link) for client, link in facts.links.links.items()},
    }


def _opened(folder: RunFolder, is_hosted: bool) -> AbstractContextManager[sqlite3.Connection]:
    """Return the run's store to read; a service's run that never began has none, which is as good as an empty one."""
    if is_hosted and not folder.store_path.exists():
        return contextlib.closing(open_database(None))
    return reading(folder.store_path)


def _told_by(found: Whereabouts, folder: RunFolder) -> str:
    """Return what a run waits for by the word of its service, nothing if it has none or that does not run."""
    if found.queue is None or found.outcome:
        return ""
    try:
        return client_api.state(folder.run_id, found.queue.folder).told
    except ConfigError:
        return ""


def format_status(status: dict[str, Any]) -> str:
    """Return the status for people."""
    sections = (
        _standing(status),
        _waiting(status),
        _counted("turned away", status["turned_away"]),
        _counted("messages not delivered", status["undelivered"]),
        _accuracy(status),
        _clients(status),
        _connections(status),
        _devices(status),
    )
    return "\n".join(line for section in sections for line in section)


def watch(path: Path, form: str, every_s: float, stream: TextIO) -> None:
    """Tell where a run stands every so often until it is over; on a terminal each time in the place of the last.

    Raises:
        ConfigError: see `read_status`.
    """
    while True:
        status = read_status(path)
        text = json.dumps(status) if form == "json" else format_status(status)
        stream.write(f"{CLEAR if stream.isatty() else ''}{text}\n")
        stream.flush()
        if status["outcome"]:
            return
        time.sleep(every_s)


def _standing(status: dict[str, Any]) -> list[str]:
    outcome, last_s = status["outcome"], status["last_round_s"]
    state = status["state"] if status["state"] == "queued" else f"in round {status['round']}"
    if outcome:
        state = f"over ({outcome}: {status['reason']})" if status["reason"] else f"over ({outcome})"
    took = f", the last in {show_seconds(last_s)}" if last_s is not None else ""
    failed = f", {status['rounds_failed']} failed" if status["rounds_failed"] else ""
    lines = [
        f"{status['run_id']}: {status['method']}, {state}",
        f"rounds: {status['rounds_completed']} of {status['num_rounds']} completed{failed}{took}",
    ]
    is_spent = status["rounds_completed"] + status["rounds_failed"] >= status["num_rounds"]
    if outcome in ("interrupted", "cancelled") or (outcome == "failed" and not is_spent):
        lines.append(_how_to_go_on(status))
    elif status["state"] == "unfinished":
        lines.append(f"no process of this machine has it: it was killed, or runs elsewhere; {_how_to_go_on(status)}")
    elif status["state"] == "stopped" or (status["state"] == "queued" and not status["service_is_at_work"]):
        lines.append(f"no process of this machine has it; {_how_to_go_on(status)}")
    if status["cohort"] and not outcome:
        missing = sorted(set(status["cohort"]) - set(status["answered"]))
        waits = f", waiting for {', '.join(missing)}" if missing and not status["waits_for"] else ""
        lines.append(f"exchange {status['exchange']}: {len(status['answered'])}/{len(status['cohort'])} updates{waits}")
    return [*lines, status["waits_for"]] if status["waits_for"] and not outcome else lines


def _how_to_go_on(status: dict[str, Any]) -> str:
    if status["service"] is None:
        larger = " --set round.max_failed_rounds=N" if "max_failed_rounds" in status["reason"] else ""
        return RunFolder(Path(status["folder"])).how_to_go_on(status["mode"]) + larger
    if status["outcome"]:
        return f"to go on: coordinator resume {status['run_id']}"
    return service_goes_on(Path(status["service"]))


def _waiting(status: dict[str, Any]) -> list[str]:
    return [f"{client} waits for {what}" for client, what in sorted(status["waiting"].items())]


def _counted(what: str, counts: Mapping[str, int]) -> list[str]:
    told = [f"{name} {count}" for name, count in sorted(counts.items())]
    return [f"{what}: {', '.join(told)}"] if told else []


def _accuracy(status: dict[str, Any]) -> list[str]:
    if not status["accuracy"]:
        return []
    rows = [Row(rule, [show_accuracy(last), str(round)]) for rule, (round, last) in status["accuracy"].items()]
    return ["", *aligned(Row("accuracy by rule", ["last", "in round"]), rows)]


def _clients(status: dict[str, Any]) -> list[str]:
    """Return the lines of the clients: what each did when that was last stored, and its last exchange."""
    is_live = status["seen_s_ago"] is not None
    told = {client: line for client, line in status["clients"].items() if is_live or line["round"] is not None}
    has_exchange = any(line["round"] is not None for line in told.values())
    columns = (NOW if is_live else {}) | (LAST_EXCHANGE if has_exchange else {})
    rows = [
        Row(client, ["n/a" if line[key] is None else show(line[key]) for key, show in columns.values()])
        for client, line in told.items()
    ]
    title = f"clients {show_seconds(status['seen_s_ago'])} ago" if is_live else "clients' last exchanges"
    return ["", *aligned(Row(title, list(columns)), rows, sys.maxsize)] if rows else []


def _connections(status: dict[str, Any]) -> list[str]:
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
        for client, link in sorted(status["connections"].items())
    ]
    header = Row("clients' connections", ["up", "down", "number", "retransmits", "round trip"])
    return ["", *aligned(header, rows)] if rows else []


def _devices(status: dict[str, Any]) -> list[str]:
    devices = {client: read_device(told) for client, told in sorted(status["devices"].items())}
    rows = [
        Row(client, [device.title, device.cpu, device.gpu or "none", show_bytes(device.memory_bytes)], device.sensors)
        for client, device in devices.items()
    ]
    return ["", *aligned(Row("clients' devices", ["board", "processor", "GPU", "memory"]), rows)] if rows else []


def _latest_accuracy(connection: sqlite3.Connection, records: Sequence[RoundRecord]) -> dict[str, tuple[int, float]]:
    """Return the last accuracy of each rule and the round that it is of, from the last rounds' lines alone."""
    closed = [line for record in records[-RECENT:] if isinstance(line := read_line(record.line), RoundLine)]
    first = closed[0].round if closed else 0
    lines = connection.execute("SELECT line FROM metrics WHERE round >= ? ORDER BY id", (first,))
    accuracy = gather(closed, (read_line(text) for (text,) in lines)).accuracy
    return {rule: (points[-1].round, points[-1].weighted) for rule, points in accuracy.items()}
