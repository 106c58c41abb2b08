"""`--resume RUN_DIR`: finding the run that is to go on, and what it goes on with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coordinator.config import RunConfig, load
from coordinator.store.begun import check_same, differing
from coordinator.store.run_folder import RunFolder
from coordinator.store.stored import read_facts, reading
from coordinator.store.stored_facts import StoredFacts
from models.settings import Tables
from models.spec import ConfigError

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
    if folder.read_tables()["run"].get("store") == "memory":
        raise ConfigError(f"--resume {path}: [run] store = 'memory' keeps nothing that a run could go on from")
    facts = _facts(folder)
    if mode not in GOES_ON_AS[facts.mode]:
        expected = " or ".join(GOES_ON_AS[facts.mode])
        raise ConfigError(f"--resume {path}: a run of {facts.mode}; expected the command {expected}, got {mode}")
    modules = given.resolve().parent if given is not None else Path(facts.modules)
    sys.path.append(str(modules))
    config = load(given or folder.config_path, settings, mode)
    check_same(_tables(folder.read_config()), _tables(config), f"--resume {path}")
    return config, modules, folder


def last_run(config: RunConfig, mode: str) -> Path | None:
    """Return the folder of the last run of a command that has these settings, over or not; None if there is none."""
    configs = Path(config.run.dir).expanduser().glob("*/config.toml")
    folders = [RunFolder(path.parent) for path in sorted(configs, key=lambda path: path.stat().st_mtime, reverse=True)]
    return next((folder.path for folder in folders if _is_of(folder, config, mode)), None)


def _is_of(folder: RunFolder, config: RunConfig, mode: str) -> bool:
    try:
        return _facts(folder).mode == mode and not differing(_tables(folder.read_config()), _tables(config))
    except ConfigError:
        return False


def _facts(folder: RunFolder) -> StoredFacts:
    """Return what the run's store says of the run; it may be in use."""
    with reading(folder.store_path) as connection:
        facts = read_facts(connection)
    if not facts.mode:
        raise ConfigError(f"{folder.store_path}: the run ended before anything was stored; start it anew")
    return facts


def _tables(config: RunConfig) -> Tables:
    tables: Tables = msgspec.to_builtins(config)
    return tables
