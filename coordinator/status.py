"""`coordinator status RUN_DIR`: where a run stands, read from its store, whether it goes on or not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from coordinator.report.units import show_bytes
from coordinator.run_folder import RunFolder
from coordinator.stored import read_position, read_rounds
from coordinator.tally import ClientLine, RoundLine, read_line
from models.settings import read_toml
from models.spec import ConfigError


def read_status(path: Path) -> dict[str, Any]:
    """Return where the run in this folder stands.

    Raises:
        ConfigError: there is no run folder, or its store cannot be read.
    """
    folder = RunFolder.open(path)
    config = read_toml(folder.config_path)
    num_rounds: int = config["run"]["num_rounds"]
    try:
        with closing(sqlite3.connect(f"file:{folder.store_path}?mode=ro", uri=True)) as connection:
            position, records = read_position(connection), read_rounds(connection)
            clients, turned_away = dict(_latest_of_clients(connection)), _turned_away(connection)
    except sqlite3.Error as error:
        raise ConfigError(f"{folder.store_path}: expected the store of a run: {error}") from None
    opened = position.open_exchange
    last = read_line(records[-1].line) if records else None
    return {
        "run_id": folder.run_id,
        "method": config["method"]["name"],
        "outcome": folder.read_summary().get("outcome"),
        "num_rounds": num_rounds,
        "rounds_completed": sum(record.status == "completed" for record in records),
        "rounds_failed": sum(record.status == "failed" for record in records),
        "round": opened.round if opened else min(position.next_round, num_rounds),
        "exchange": opened.exchange if opened else None,
        "cohort": list(opened.cohort) if opened else [],
        "answered": [update.client for update in opened.updates] if opened else [],
        "last_round_s": last.round_s if isinstance(last, RoundLine) else None,
        "clients": clients,
        "turned_away": turned_away,
    }


def format_status(status: dict[str, Any]) -> str:
    """Return the status for people."""
    outcome = status["outcome"]
    state = f"over ({outcome})" if outcome else f"in round {status['round']}"
    lines = [
        f"{status['run_id']}: {status['method']}, {state}",
        f"rounds: {status['rounds_completed']} of {status['num_rounds']} completed, {status['rounds_failed']} failed",
    ]
    if status["cohort"] and not outcome:
        missing = sorted(set(status["cohort"]) - set(status["answered"]))
        waits = f", waiting for {', '.join(missing)}" if missing else ""
        lines.append(f"exchange {status['exchange']}: {len(status['answered'])}/{len(status['cohort'])} updates{waits}")
    lines += [
        f"  {client}: last in round {told['round']} ({told['status']}), "
        f"up {show_bytes(told['up_bytes'])}, down {show_bytes(told['down_bytes'])}"
        for client, told in sorted(status["clients"].items())
    ]
    if status["turned_away"]:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(status["turned_away"].items()))
        lines.append(f"turned away: {kinds}")
    return "\n".join(lines)


def _turned_away(connection: sqlite3.Connection) -> dict[str, int]:
    """Return what was turned away at the port, by kind."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'turned_away'").fetchone()
    counts: dict[str, int] = json.loads(row[0]) if row else {}
    return counts


def _latest_of_clients(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each client with its last closed exchange of a round."""
    rounds_only = "client != '' AND json_extract(line, '$.exchange') != 'evaluation'"
    query = f"SELECT line FROM metrics WHERE id IN (SELECT max(id) FROM metrics WHERE {rounds_only} GROUP BY client)"
    for (text,) in connection.execute(query):
        line = read_line(text)
        if isinstance(line, ClientLine):
            told = {"round": line.round, "exchange": line.exchange, "status": line.status}
            yield line.client, {**told, "up_bytes": line.up.encoded_bytes, "down_bytes": line.down.encoded_bytes}
