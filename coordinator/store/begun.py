"""What the store of a run remembers of its beginning, its id and its settings, and which of these may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinator.store.run_folder import RunFolder
from coordinator.store.stored_facts import StoredFacts, text_of
from models.settings import Tables
from models.spec import ConfigError

CHANGEABLE = (
    "transport.bind",
    "transport.keys",
    "transport.heartbeat_s",
    "transport.max_message_bytes",
    "round.max_failed_rounds",
    "require.tags",
    "require.classes",
    "require.min_memory_mib",
    "require.cuda",
    "require.source",
    "report.page",
    "report.tensorboard",
    "report.mlflow",
    "report.dashboard",
    "simulation.executor",
    "simulation.ray_address",
    "simulation.ray_gpus",
    "simulation.jobs",
    "simulation.cache_bytes",
)
"""Settings that may differ when a run goes on: no global state and no accuracy depends on them.

`max_failed_rounds` only decides how soon a run is given up, so a run that ended by it can go on with a larger one.
"""

MAX_NAMED = 5
"""Of the settings that differ, so many are named."""

Differing = dict[str, tuple[Any, Any]]
"""By `table.key`, the value that a run was begun with and the one that came; None where there is none."""


def texts_of(folder: RunFolder) -> dict[str, str]:
    """Return what the store of a run that begins in this folder is to remember, as text by name."""
    return {"run_id": folder.run_id, "settings": text_of(folder.read_tables())}


def check_begun(folder: RunFolder, facts: StoredFacts) -> None:
    """Hold a folder to what its store remembers; one that an older program began remembers nothing.

    Raises:
        ConfigError: the folder's name or its `config.toml` is another.
    """
    run_id = facts.run_id or folder.run_id
    if run_id != folder.run_id:
        raise ConfigError(
            f"{folder.path}: expected a folder named {run_id}, the id by which the run's clients keep their states; "
            f"got {folder.run_id}: give it that name, elsewhere if the name is taken"
        )
    if facts.settings is not None:
        check_same(facts.settings, folder.read_tables(), str(folder.config_path))


def check_same(begun: Tables, given: Tables, where: str) -> None:
    """Refuse settings that differ from those a run was begun with and may not; `where` is what the error begins with.

    Raises:
        ConfigError: as the name says.
    """
    changed = differing(begun, given)
    if changed:
        named = [f"{key} = {new!r}: expected {old!r}" for key, (old, new) in list(changed.items())[:MAX_NAMED]]
        more = [f"and {len(changed) - MAX_NAMED} more"] if len(changed) > MAX_NAMED else []
        raise ConfigError(f"{where}: a run goes on with the settings it was started with: {'; '.join(named + more)}")


def differing(begun: Tables, given: Tables) -> Differing:
    """Return the settings that differ and may not; what was left to be settled as the run began may have been."""
    old, new = dict(_flat(begun)), dict(_flat(given))
    changed = {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}
    if old.get("simulation.batched") == "auto":
        changed.pop("simulation.batched", None)
    return {key: values for key, values in changed.items() if key not in CHANGEABLE}


def _flat(tables: Tables) -> Iterator[tuple[str, Any]]:
    """Yield every setting as `table.key` and value."""
    for table, keys in tables.items():
        for key, value in keys.items():
            yield f"{table}.{key}", value
