"""Whether a store is whole when its run goes on: nothing that it held is missing, and its last state is what it was."""

from __future__ import annotations

from pathlib import Path

from coordinator.metrics.tally import RoundLine
from coordinator.metrics.written_lines import whole_line
from coordinator.store.run_folder import RunFolder
from coordinator.store.standing import packed_frames
from coordinator.store.store import Store
from coordinator.store.stored import StoredPosition, StoredState
from models.spec import ConfigError
from wire.encoding import unpack

_OF_ROUND = b'"kind":"round"'

SHOWN = 12
"""So much of a hash tells two states apart for people."""


def check_whole(folder: RunFolder, store: Store, position: StoredPosition) -> None:
    """Hold a store to what `metrics.jsonl` tells, and its state to the hash of its round.

    A round's end is committed with the next one's opening, so a kill can leave that of one in `metrics.jsonl` alone.

    Raises:
        ConfigError: rounds are missing, or the state is another one.
    """
    last, told = position.next_round - 1, _last_round(folder.metrics_path)
    if told > last + 1:
        lost = f"expected the {told} rounds that {folder.metrics_path.name} tells of, got {last}"
        advice = f"put back what is missing, such as {folder.store_path.name}-wal; without {folder.metrics_path.name}"
        raise ConfigError(f"{folder.store_path}: {lost}; {advice} the run goes on from round {last + 1}")
    expected = store.global_hash(position.base_round)
    if position.start_state is not None and expected is not None:
        found = _hash(position.start_state)
        if found != expected:
            state = f"expected the state with which round {position.base_round} ended, hash {expected[:SHOWN]}"
            raise ConfigError(f"{folder.store_path}: {state}, got hash {found[:SHOWN]}: the store is damaged")


def _last_round(path: Path) -> int:
    """Return the last round whose end `metrics.jsonl` tells of, 0 if there is none."""
    try:
        with path.open("rb") as file:
            lines = (whole_line(content) for content in file if _OF_ROUND in content)
            return max((line.round for line in lines if isinstance(line, RoundLine)), default=0)
    except OSError:
        return 0


def _hash(state: StoredState) -> str:
    from models.checkpoint import state_hash

    return state_hash(unpack(packed_frames(*state)).arrays)
