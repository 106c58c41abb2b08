"""`--resume RUN_DIR`: finding the run that is to go on, and what it goes on with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coordinator.config import RunConfig, load
from coordinator.run_folder import RunFolder
from coordinator.stored import read_facts, reading
from models.settings import read_toml
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

GOES_ON_AS = {"serve": ("serve",), "loopback": ("loopback", "serve"), "simulate": ("simulate",)}
"""By the command that started a run, those that go on with it; clients keep their states where they ran."""


def take_up(path: Path, mode: str, given: Path | None, settings: Sequence[str]) -> tuple[RunConfig, Path, RunFolder]:
    """Return the settings, the folder of a user's own modules and the run folder of a run that is to go on.

    Args:
        path: the run folder.
        mode: the command that it is to go on with.
        given: a config file that was named as well; the run's own one by default.
        settings: each `--set`, over the config file.

    Raises:
        ConfigError: there is no such run, it cannot go on by this command, or its settings are others.
    """
    folder = RunFolder.open(path)
    if read_toml(folder.config_path).get("run", {}).get("store") == "memory":
        raise ConfigError(f"--resume {path}: [run] store = 'memory' keeps nothing that a run could go on from")
    facts = _facts(folder)
    if mode not in GOES_ON_AS[facts["mode"]]:
        expected = " or ".join(GOES_ON_AS[facts["mode"]])
        raise ConfigError(f"--resume {path}: a run of {facts['mode']}; expected the command {expected}, got {mode}")
    modules = given.resolve().parent if given is not None else Path(facts["modules"])
    sys.path.append(str(modules))
    config = load(given or folder.config_path, settings, mode)
    _check_same(config, load(folder.config_path, ()), path)
    return config, modules, folder


def last_run(config: RunConfig, mode: str) -> Path | None:
    """Return the folder of the last run of a command that has these settings, over or not; None if there is none."""
    configs = Path(config.run.dir).expanduser().glob("*/config.toml")
    folders = [RunFolder(path.parent) for path in sorted(configs, key=lambda path: path.stat().st_mtime, reverse=True)]
    return next((folder.path for folder in folders if _is_of(folder, config, mode)), None)


def _is_of(folder: RunFolder, config: RunConfig, mode: str) -> bool:
    try:
        return _facts(folder)["mode"] == mode and not _changed(config, load(folder.config_path, ()))
    except ConfigError:
        return False


def _facts(folder: RunFolder) -> dict[str, str]:
    """Return what the run's store says of the run; it may be in use."""
    with reading(folder.store_path) as connection:
        facts = read_facts(connection)
    if "mode" not in facts:
        raise ConfigError(f"{folder.store_path}: the run ended before anything was stored; start it anew")
    return facts


def _check_same(given: RunConfig, stored: RunConfig, path: Path) -> None:
    if changed := _changed(given, stored):
        told = "; ".join(f"{key} = {new!r}: expected {old!r}" for key, (old, new) in changed.items())
        raise ConfigError(f"--resume {path}: a run goes on with the settings it was started with: {told}")


def _changed(given: RunConfig, stored: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ and may not: the stored and the given value of each."""
    old, new = dict(_flat(stored)), dict(_flat(given))
    differ = (key for key in {**old, **new} if old.get(key) != new.get(key))
    return {key: (old.get(key), new.get(key)) for key in differ if key not in CHANGEABLE}


def _flat(config: RunConfig) -> Iterator[tuple[str, Any]]:
    """Yield every setting as `table.key` and value."""
    for table, section in msgspec.to_builtins(config).items():
        for key, value in section.items():
            yield f"{table}.{key}", value
