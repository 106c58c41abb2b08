"""What a client holds across rounds, so that it can go back to a round's start and lose nothing to a kill.

A client holds one *start* state, the outcome of the last round that counted, and the states after each exchange of the
*current* round. It cannot know whether the current round will count; the next round's first task says so by `kept`, the
last round whose final update of this client was accepted:

    kept is the current round    its outcome (the state after its last exchange) becomes the start state
    kept is anything else        the current round is dropped: the client is put back to the start state

Within a round an exchange begins from the state after the exchange before it, however often it is repeated. There
`kept` is the current round if the client's update of that exchange was accepted: then that state must be here. The
evaluation behind the last exchange follows the rule of a new round, and its outcome is never kept.

On disk these are `round_start.safetensors`, `current-<exchange>.safetensors` and `uplink-<exchange>.safetensors`; every
file names its run and round. Each step is one atomic replacement or one removal, in an order that leaves a correct
folder wherever a kill falls:

- An uplink is written after the state it left with, and removed before it: an uplink that is there can be sent again,
  and if it is accepted, its outcome is there too.
- An outcome becomes the start by one rename. What then remains of its round is not newer than the start: it is ignored
  until it is removed or replaced.
- A dropped round may be half removed; until all of it is gone, `kept` still says to drop it.
- A kill during a write leaves an unfinished file, which the next start removes, as it does all files of another run.

A coordinator that was given an older copy of its store back says that an earlier round than the start was the last to
count. Where rounds go back there is nothing to go back to: the start is written anew as the outcome of that round, once
all that was ignored until then is removed, and from there all is as above.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from models import checkpoint

Arrays = Mapping[str, np.ndarray]

_START = "round_start"

_OURS = ("round_start.*", "current-*", "uplink-*")
"""Nothing else in the folder is touched."""


class ClientStates:
    """The states and uplinks of one client in one run, in a folder or, for `folder=None`, in memory.

    Attributes:
        lack: in words, that the state which the last `begin` returned is not the one to go on from, as that is gone or
            was never made; "" where it is. Of a client that holds no state it says nothing.
    """

    def __init__(self, folder: Path | None, run: str, num_exchanges: int = 1, durable: bool = True) -> None:
        """Take up what the folder holds of this run, and remove what it holds of others.

        Args:
            folder: where the states are kept, None for memory.
            run: the run's id.
            num_exchanges: exchanges of a round.
            durable: whether they must survive a loss of power, not only a kill.

        Raises:
            checkpoint.CheckpointError: a file is broken.
        """
        self._store: _Memory | _Folder = _Memory() if folder is None else _Folder(folder, durable)
        self._run = run
        self._num_exchanges = num_exchanges
        self.lack = ""
        for name, metadata in list(self._store.metadata.items()):
            if metadata.get("run") != self._run:
                self._store.remove(name)

    def begin(self, round: int, exchange: int, kept: int) -> Arrays | None:
        """Return the state that this exchange begins from, `None` for the initial one, and drop what it supersedes.

        Args:
            round: the round of the task, counted from 1.
            exchange: its exchange; the number of exchanges stands for the evaluation after the last round.
            kept: the last round whose final update of this client was accepted, 0 for none; in a later exchange of a
                round that round, if the update of the exchange before was accepted.
        """
        held = self._held()
        if held and (round != self._round_of(held[0]) or exchange >= self._num_exchanges):
            self._close_round(held, kept)
            held = []
        earlier = [name for name in held if self._exchange_of(name) < exchange]
        last = kept if exchange >= self._num_exchanges else min(kept, round - 1)
        self.lack = (
            self._adopt(last, held) if self._start_round() > last else self._lack(round, exchange, kept, earlier)
        )
        self._remove(held[len(earlier) :])
        return self._store.get(earlier[-1] if earlier else _START)

    def save(self, round: int, exchange: int, arrays: Arrays) -> None:
        """Hold the state after an exchange; on disk it stays when this returns. Empty states are not written."""
        if arrays and exchange < self._num_exchanges:
            self._store.put(f"current-{exchange}", arrays, self._metadata(round, exchange))

    def save_uplink(self, round: int, exchange: int, frames: Sequence[bytes | memoryview]) -> None:
        """Hold an uplink's frames, after `save` of the same exchange."""
        arrays = {str(index): np.frombuffer(frame, np.uint8) for index, frame in enumerate(frames)}
        self._store.put(f"uplink-{exchange}", arrays, self._metadata(round, exchange))

    def load_uplink(self, round: int, exchange: int) -> list[bytes] | None:
        """Return the frames that `save_uplink` held for this exchange and that nothing has superseded."""
        name = f"uplink-{exchange}"
        if self._store.metadata.get(name) != self._metadata(round, exchange):
            return None
        arrays = self._store.get(name)
        assert arrays is not None
        return [arrays[str(index)].tobytes() for index in range(len(arrays))]

    def _adopt(self, last: int, held: Sequence[str]) -> str:
        """Take a start state that is ahead of the coordinator for the outcome of the last round that it counts."""
        start, arrays = self._start_round(), self._store.get(_START)
        assert arrays is not None
        self._remove([name for name in self._states() if name not in held])
        self._store.put(_START, arrays, self._metadata(last, self._num_exchanges - 1))
        told = _expected(f"after round {last}", f"after round {start}")
        return f"the coordinator's store is older than this client: {told}"

    def _lack(self, round: int, exchange: int, kept: int, earlier: Sequence[str]) -> str:
        if kept == round and exchange < self._num_exchanges:
            expected = f"after exchange {exchange - 1} of round {kept}"
        elif not earlier:
            expected = f"after round {kept}"
        else:
            return ""
        start, found = self._start_round(), ""
        if earlier:
            found = f"after exchange {self._exchange_of(earlier[-1])} of round {round}"
        elif start or not kept:
            found = f"after round {start}"
        if found == expected:
            return ""
        return _expected(expected, found)

    def _start_round(self) -> int:
        """Return the round whose outcome is the start state, 0 for the initial state."""
        return self._round_of(_START) if _START in self._store.metadata else 0

    def _held(self) -> list[str]:
        """Return the states of the current round, first exchange first."""
        start = self._start_round()
        return sorted((name for name in self._states() if self._round_of(name) > start), key=self._exchange_of)

    def _states(self) -> list[str]:
        """Return the states after an exchange, those that are ignored too."""
        return [name for name in self._store.metadata if name.startswith("current-")]

    def _close_round(self, held: list[str], kept: int) -> None:
        is_whole = self._exchange_of(held[-1]) == self._num_exchanges - 1
        if kept == self._round_of(held[-1]) and is_whole:
            self._remove_uplinks(0)
            self._store.rename(held[-1], _START)
        self._remove(self._states())

    def _remove(self, names: list[str]) -> None:
        """Remove states, each after the uplinks that build on it."""
        for name in names:
            self._remove_uplinks(self._exchange_of(name))
            self._store.remove(name)

    def _remove_uplinks(self, from_exchange: int) -> None:
        for name in [name for name in self._store.metadata if name.startswith("uplink-")]:
            if self._exchange_of(name) >= from_exchange:
                self._store.remove(name)

    def _metadata(self, round: int, exchange: int) -> dict[str, str]:
        return {"run": self._run, "round": str(round), "exchange": str(exchange)}

    def _round_of(self, name: str) -> int:
        return int(self._store.metadata[name]["round"])

    def _exchange_of(self, name: str) -> int:
        return int(self._store.metadata[name]["exchange"])


def _expected(expected: str, found: str) -> str:
    goes_on = f"the one {found}, and goes on from that" if found else "none, and begins anew"
    return f"expected to find its state {expected}, found {goes_on}"


def drop_states(folder: Path) -> None:
    """Delete all states and uplinks in a client's folder, and the folder if there is nothing else in it."""
    for path in _files_in(folder):
        path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _files_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if any(map(path.match, _OURS)))
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _told_what_to_do() -> Iterator[None]:
    try:
        yield
    except checkpoint.CheckpointError as error:
        raise checkpoint.CheckpointError(f"{error}; remove it, and this client goes on without it") from None


class _Memory:
    """Named states in a dictionary."""

    def __init__(self) -> None:
        self.metadata: dict[str, dict[str, str]] = {}
        self._arrays: dict[str, Arrays] = {}

    def get(self, name: str) -> Arrays | None:
        return self._arrays.get(name)

    def put(self, name: str, arrays: Arrays, metadata: dict[str, str]) -> None:
        self.metadata[name] = metadata
        self._arrays[name] = {key: np.array(array) for key, array in arrays.items()}

    def rename(self, name: str, other: str) -> None:
        self.metadata[other] = self.metadata.pop(name)
        self._arrays[other] = self._arrays.pop(name)

    def remove(self, name: str) -> None:
        del self.metadata[name], self._arrays[name]


class _Folder:
    """Named states as files of one folder, which is made for the first of them."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        ours = _files_in(folder)
        for path in ours:
            if path.suffix == checkpoint.TEMPORARY_SUFFIX:
                path.unlink()
        names = [path.stem for path in ours if path.suffix == ".safetensors"]
        with _told_what_to_do():
            self.metadata = {name: checkpoint.read_metadata(self._path(name)) for name in names}

    def get(self, name: str) -> Arrays | None:
        with _told_what_to_do():
            return checkpoint.read(self._path(name))[0] if name in self.metadata else None

    def put(self, name: str, arrays: Arrays, metadata: dict[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        checkpoint.write(self._path(name), arrays, metadata, self._durable)
        self.metadata[name] = metadata

    def rename(self, name: str, other: str) -> None:
        self._path(name).replace(self._path(other))
        if self._durable:
            checkpoint.sync_folder(self._folder)
        self.metadata[other] = self.metadata.pop(name)

    def remove(self, name: str) -> None:
        self._path(name).unlink()
        del self.metadata[name]

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"
