"""What a run starts from where it goes on with what another one has made (`--init-from`).

`read_start` holds the other run's files to each other, by the hash of its state, and to this run's settings. A run
that was stopped has left the state with which its last completed round ended. What the server half makes of it and
would send first is held to the sizes that follow from this run's settings, before anyone is let in (`check_downlink`);
and as the first round opens to those that only clients know, as of their nets, before anyone is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.aggregator.half import ServerHalfError
from coordinator.metrics.origin import Origin
from coordinator.metrics.tally import RoundLine, read_line
from coordinator.metrics.written_lines import all_written_lines
from coordinator.store.run_folder import RunFolder
from coordinator.store.stored import read_facts, reading
from coordinator.store.whole import SHOWN
from models.methods import find
from models.methods.api import Exchange
from models.spec import ConfigError, ModelConfig, RunSpec, read_section
from wire.encoding import Packed, pack, unpack
from wire.errors import RecordError, WireError
from wire.payload import Payload
from wire.sockets.log import size_bytes

MAX_TOLD = 500
"""Characters of what is said against a state: it may quote arrays."""


class Start(NamedTuple):
    """A global state to start from, the classes that it knows, and where it comes from."""

    state: Packed
    classes: frozenset[int]
    origin: Origin


def read_start(path: Path, spec: RunSpec) -> Start:
    """Return the last global state of another run of the same method.

    Raises:
        ConfigError: there is no such run, it does not fit this one, it has no completed round, or a file is damaged.
    """
    from models.checkpoint import CheckpointError, read, state_hash

    try:
        other = RunFolder.open(path)
        _check_settings(other, spec)
        _check_classes(other, spec)
        _see_ended(other)
        arrays, _ = read(other.global_path)
        rounds = _up_to(state_hash(arrays), _completed(other.metrics_path), other)
        summary = other.read_summary()
        known = _known_at_start(other, summary).union(*(line.new_classes for line in rounds))
        state = pack(Payload.of_state(arrays))
        run_id = summary.get("run_id", other.run_id)
    except OSError as error:
        raise ConfigError(f"--init-from {path}: expected {error.filename} to read, got {error.strerror}") from None
    except (CheckpointError, ConfigError, RecordError) as error:
        raise ConfigError(f"--init-from {path}: {error}") from None
    return Start(state, known, Origin(run_id, rounds[-1].round, rounds[-1].global_hash, sorted(known)))


@contextmanager
def taking_up(origin: Origin | None, client: str = "") -> Iterator[None]:
    """Have all that speaks against the state of another run, for one client or for the method, be a matter of settings.

    Raises:
        ConfigError: something does; the text is one line.
    """
    try:
        yield
    except (ConfigError, OSError):
        raise
    except Exception as error:  # whatever a method says of arrays that it does not know
        if origin is None:
            raise
        kind = "" if isinstance(error, ServerHalfError | WireError) else f"{type(error).__name__}: "
        told, whom = " ".join(f"{kind}{error}".split())[:MAX_TOLD], client or "this run"
        raise ConfigError(f"--init-from {origin.run_id}: its state does not fit {whom}: {told}") from None


def check_downlink(exchange: Exchange, downlink: Packed, dims: Mapping[str, int]) -> None:
    """Hold a downlink to its record and to the sizes, by symbol, that clients expect.

    Raises:
        WireError: it is another one.
    """
    exchange.downlink.check_forms(downlink.forms, downlink.scalars, dims)
    exchange.downlink.from_payload(unpack(downlink), dims)


def _check_settings(other: RunFolder, spec: RunSpec) -> None:
    """Refuse another method, another width and, where whole nets travel, another net."""
    tables = other.read_tables()
    method = tables["method"]["name"]
    if method != spec.method:
        raise ConfigError(f"expected a run of method {spec.method}, got one of {method}")
    model = read_section(ModelConfig, tables.get("model", {}), f"{other.config_path} [model]")
    if model.feature_dim != spec.model.feature_dim:
        expected = f"expected a run with [model] feature_dim = {spec.model.feature_dim}, as this one's"
        raise ConfigError(f"{expected}, got {model.feature_dim}")
    ours, theirs = _nets(spec.model), _nets(model)
    is_known = not any(":" in name for name in ours | theirs)  # one's own net may have moved to another module
    if find(method).shares_model and is_known and ours != theirs:
        expected = f"expected a run of the net {_listed(ours)}, as this one's, because {method} sends whole nets"
        raise ConfigError(f"{expected}; got {_listed(theirs)}")


def _nets(model: ModelConfig) -> set[str]:
    return set(model.names or [model.name])


def _listed(names: set[str]) -> str:
    return " and ".join(map(repr, sorted(names)))


def _see_ended(other: RunFolder) -> None:
    """Refuse a run that has not ended in order, and so has not written its state as a file."""
    if not other.global_path.exists():
        expected = f"expected a run that has ended in order, got one without {other.global_path.name}"
        raise ConfigError(f"{expected}; if it was killed, go on with it and stop it: that writes the file")


def _check_classes(other: RunFolder, spec: RunSpec) -> None:
    """Refuse another label map: what a state knows of classes it knows by their ids."""
    path, classes = other.histogram_path, other.read_histogram().classes
    if not path.exists():
        raise ConfigError(f"{path}: expected the label map of the run, got nothing")
    if len(classes) != spec.num_classes:
        raise ConfigError(f"{path}: expected the {spec.num_classes} classes of this run, got {len(classes)}")
    differing = [label for label, name in enumerate(spec.classes) if name != classes[label]]
    if differing:
        label = differing[0]
        expected = f"expected the label map of this run, where class {label} is {spec.classes[label]!r}"
        raise ConfigError(f"{path}: {expected}, got {classes[label]!r}")


def _completed(path: Path) -> list[RoundLine]:
    """Return the lines of the completed rounds."""
    lines = map(read_line, all_written_lines(path))
    return [line for line in lines if isinstance(line, RoundLine) and line.status == "completed"]


def _up_to(found: str, rounds: Sequence[RoundLine], other: RunFolder) -> Sequence[RoundLine]:
    """Return the rounds up to the one that ended with the state of this hash."""
    ends = [index for index, line in enumerate(rounds, 1) if line.global_hash == found]
    if ends:
        return rounds[: ends[-1]]
    if not rounds:
        raise ConfigError(f"{other.metrics_path}: expected a completed round, got none")
    told = f"round {rounds[-1].round} of {other.metrics_path.name} ended, hash {rounds[-1].global_hash[:SHOWN]}"
    raise ConfigError(
        f"{other.global_path}: expected the state with which {told}, got hash {found[:SHOWN]}: one of them is damaged"
    )


def _known_at_start(other: RunFolder, summary: Mapping[str, Any]) -> frozenset[int]:
    """Return the classes that the other run's own start knew: by its store, or else by its summary."""
    if not size_bytes(other.store_path):
        return frozenset((summary.get("init_from") or {}).get("classes", ()))
    with reading(other.store_path) as connection:
        return read_facts(connection).start_classes or frozenset()
