"""`coordinator status RUN_DIR`: where a run stands, read from its store, whether it goes on or not."""

from __future__ import annotations

import json
import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from coordinator.device import read_device
from coordinator.holder import holder
from coordinator.run_folder import RunFolder
from coordinator.series import gather
from coordinator.service.queue import queue_of
from coordinator.stored import RoundRecord, read_devices, read_facts, read_links, read_position, read_rounds, reading
from coordinator.table import Row, aligned
from coordinator.tally import ClientLine, RoundLine, read_line
from coordinator.units import show_accuracy, show_bytes, show_seconds
from coordinator.wire_bytes import told_of
from models.settings import read_toml

CLEAR = "\x1b[H\x1b[2J"
"""Makes a terminal empty and begins at its top."""

RECENT = 20
"""The last accuracy of a rule is looked for in so many rounds."""


def read_status(path: Path) -> dict[str, Any]:
    """Return where the run in this folder stands.

    Raises:
        ConfigError: there is no run folder, or its store cannot be read.
    """
    folder = RunFolder.open(path)
    config = read_toml(folder.config_path)
    num_rounds: int = config["run"]["num_rounds"]
    with reading(folder.store_path) as connection:
        position, records = read_position(connection), read_rounds(connection)
        clients = dict(_latest_of_clients(connection))
        devices, facts = read_devices(connection), read_facts(connection)
        accuracy = _latest_accuracy(connection, records)
    opened, process, queue = position.open_exchange, holder(folder.store_path), queue_of(folder)
    last = read_line(records[-1].line) if records else None
    entry = queue.get(folder.run_id) if queue is not None else None
    presence = json.loads(facts.get("presence", "{}")) if process is not None else {}
    return {
        "run_id": folder.run_id,
        "method": config["method"]["name"],
        "folder": str(path),
        "mode": facts.get("mode"),
        "outcome": folder.read_summary().get("outcome") or (entry.outcome if entry and entry.state == "over" else None),
        "process": process.pid if process is not None else None,
        "service": str(queue.folder) if queue is not None else None,
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
        "waits_for": presence.get("waits_for"),
        "connected": _silent_s(presence),
        "seen_s_ago": max(0.0, time.time() - presence["at_s"]) if presence else None,
        "waiting": json.loads(facts.get("waiting", "{}")),
        "turned_away": json.loads(facts.get("turned_away", "{}")),
        "undelivered": json.loads(facts.get("undelivered", "{}")),
        "devices": devices,
        "connections": {client: told_of(link) for client, link in read_links(facts).links.items()},
    }


def format_status(status: dict[str, Any]) -> str:
    """Return the status for people."""
    sections = (
        _standing(status),
        _waiting(status),
        _connected(status),
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
    state = f"over ({outcome})" if outcome else f"in round {status['round']}"
    took = f", the last in {show_seconds(last_s)}" if last_s is not None else ""
    failed = f", {status['rounds_failed']} failed" if status["rounds_failed"] else ""
    lines = [
        f"{status['run_id']}: {status['method']}, {state}",
        f"rounds: {status['rounds_completed']} of {status['num_rounds']} completed{failed}{took}",
    ]
    if not outcome and status["process"] is None:
        on = f"to go on: coordinator {status['mode']} --resume {shlex.quote(status['folder'])}"
        if status["service"] is not None:
            on = f"its service in {status['service']}, started again, goes on with it"
        lines.append(f"no process of this machine has it: it was killed, or runs elsewhere; {on}")
    if status["cohort"] and not outcome:
        missing = sorted(set(status["cohort"]) - set(status["answered"]))
        waits = f", waiting for {', '.join(missing)}" if missing and not status["waits_for"] else ""
        lines.append(f"exchange {status['exchange']}: {len(status['answered'])}/{len(status['cohort'])} updates{waits}")
    return [*lines, status["waits_for"]] if status["waits_for"] and not outcome else lines


def _waiting(status: dict[str, Any]) -> list[str]:
    return [f"{client} waits for {what}" for client, what in sorted(status["waiting"].items())]


def _connected(status: dict[str, Any]) -> list[str]:
    """Return the lines of who was there when that was last stored, and for how long nothing had been heard of them."""
    silent_s = sorted(status["connected"].items())
    rows = [Row(client, [show_seconds(since_s)]) for client, since_s in silent_s]
    title = Row(f"clients connected {show_seconds(status['seen_s_ago'] or 0.0)} ago", ["silent for"])
    return ["", *aligned(title, rows)] if rows else []


def _counted(what: str, counts: Mapping[str, int]) -> list[str]:
    told = [f"{name} {count}" for name, count in sorted(counts.items())]
    return [f"{what}: {', '.join(told)}"] if told else []


def _accuracy(status: dict[str, Any]) -> list[str]:
    if not status["accuracy"]:
        return []
    rows = [Row(rule, [show_accuracy(last), str(round)]) for rule, (round, last) in status["accuracy"].items()]
    return ["", *aligned(Row("accuracy by rule", ["last", "in round"]), rows)]


def _clients(status: dict[str, Any]) -> list[str]:
    """Return the lines of the clients' last exchanges."""
    rows = [
        Row(
            client,
            [
                str(told["round"]),
                told["status"],
                *("n/a" if told[key] is None else show_seconds(told[key]) for key in ("train_s", "turnaround_s")),
                *(show_bytes(told[key]) for key in ("up_bytes", "down_bytes")),
            ],
        )
        for client, told in sorted(status["clients"].items())
    ]
    header = Row("clients' last exchanges", ["round", "update", "training", "turnaround", "up", "down"])
    return ["", *aligned(header, rows)] if rows else []


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


def _silent_s(presence: dict[str, Any]) -> dict[str, float]:
    """Return for how long nothing had been heard of each client at the moment when that was stored."""
    heard_at_s: dict[str, float] = presence.get("heard_at_s", {})
    return {client: max(0.0, presence["at_s"] - heard_at) for client, heard_at in heard_at_s.items()}


def _latest_accuracy(connection: sqlite3.Connection, records: Sequence[RoundRecord]) -> dict[str, tuple[int, float]]:
    """Return the last accuracy of each rule and the round that it is of, from the last rounds' lines alone."""
    closed = [line for record in records[-RECENT:] if isinstance(line := read_line(record.line), RoundLine)]
    first = closed[0].round if closed else 0
    lines = connection.execute("SELECT line FROM metrics WHERE round >= ? ORDER BY id", (first,))
    accuracy = gather(closed, (read_line(text) for (text,) in lines)).accuracy
    return {rule: (points[-1].round, points[-1].weighted) for rule, points in accuracy.items()}


def _latest_of_clients(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each client with its last closed exchange of a round."""
    rounds_only = "client != '' AND json_extract(line, '$.exchange') != 'evaluation'"
    query = f"SELECT line FROM metrics WHERE id IN (SELECT max(id) FROM metrics WHERE {rounds_only} GROUP BY client)"
    for (text,) in connection.execute(query):
        line = read_line(text)
        if isinstance(line, ClientLine):
            yield (
                line.client,
                {
                    **{key: getattr(line, key) for key in ("round", "exchange", "status", "train_s", "turnaround_s")},
                    "up_bytes": line.up.encoded_bytes,
                    "down_bytes": line.down.encoded_bytes,
                },
            )
