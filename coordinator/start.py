"""What a run starts from where it goes on with what another one has made (`--init-from`)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from coordinator.metrics.ledger import Ledger
from coordinator.metrics.written_lines import all_written_lines
from coordinator.store.run_folder import RunFolder
from models.methods import find
from models.spec import ConfigError, RunSpec
from wire.encoding import Packed, pack
from wire.payload import Payload


class Start(NamedTuple):
    """A global state to start from, and the classes that it knows."""

    state: Packed
    classes: frozenset[int]


def read_start(path: Path, spec: RunSpec) -> Start:
    """Return the last global state of another run of the same method.

    Raises:
        ConfigError: there is no such run, it is of another method, or it has no global state.
    """
    from models.checkpoint import CheckpointError, read

    other = RunFolder.open(path)
    method = other.read_tables()["method"]["name"]
    if method != spec.method:
        raise ConfigError(f"--init-from {path}: expected a run of method {spec.method}, got one of {method}")
    try:
        arrays, _ = read(other.global_path)
        lines = all_written_lines(other.metrics_path)
    except (CheckpointError, ConfigError) as error:
        raise ConfigError(f"--init-from {path}: expected a run with a global state: {error}") from None
    accounts = Ledger(spec, find(spec.method))
    accounts.replay(lines)
    return Start(pack(Payload.of_state(arrays)), accounts.known_classes)
