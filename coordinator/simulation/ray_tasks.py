"""What a process of Ray does for a client: a function of bytes and arrays, which Ray may call anywhere and again."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coordinator.simulation import commands
from coordinator.simulation.clients import Assignment, VirtualClients
from coordinator.simulation.hosts import constants_of
from models.data import ClientParts
from models.shared_data import of_parts
from wire.encoding import Frames, decode, encode
from wire.limits import PIPE_BYTES

if TYPE_CHECKING:
    Arrays = Mapping[str, np.ndarray]

Samples = tuple[bytes, np.ndarray, np.ndarray]
"""A data set in parts; see `models.shared_data`."""


class Performed(NamedTuple):
    """What one client has done: the head of `commands.Performed`, its update's frames, and its new state."""

    head: bytes
    frames: list[bytes]
    state: dict[str, np.ndarray]


class _HandedStates:
    """The state that one client's task was given, and the one that it leaves behind."""

    def __init__(self, state: Arrays | None, lack: str) -> None:
        self._state = state
        self.lack = lack
        self.left: Arrays = {}

    def begin(self, round: int, exchange: int, kept: int) -> Arrays | None:
        """Return what was given."""
        return self._state

    def save(self, round: int, exchange: int, arrays: Arrays) -> None:
        """Keep what is left behind."""
        self.left = arrays


class _Run:
    """The run that this process was last asked for, and its clients."""

    def __init__(self, opening: Sequence[Sequence[bytes]], samples: Samples | None) -> None:
        begin, _ = decode(opening[0], commands.COMMANDS)
        assert isinstance(begin, commands.Begin)
        if begin.modules not in sys.path:
            sys.path.append(begin.modules)
        self.setup = begin.setup
        self.states: dict[str, _HandedStates] = {}
        parts = ClientParts(self.setup.spec, of_parts(*samples) if samples else None)
        constants = constants_of([commands.read_constant(frames) for frames in opening[1:]])
        self.clients = VirtualClients(self.setup, parts, constants, self.states.__getitem__)


_last: dict[str, _Run] = {}


def announce(opening: Sequence[Sequence[bytes]], samples: Samples | None, client: str) -> list[bytes]:
    """Return the frames of what a client announces."""
    run = _run_of(opening, samples)
    return _bytes(encode(commands.Announced(*run.clients.announce(client))))


def perform(
    opening: Sequence[Sequence[bytes]],
    samples: Samples | None,
    opened: Sequence[bytes],
    kept: Mapping[str, int],
    states: Mapping[str, tuple[Arrays | None, str]],
) -> list[Performed]:
    """Do an exchange for some clients, given their states and what is lacking of them."""
    run = _run_of(opening, samples)
    run.states.clear()
    run.states.update({client: _HandedStates(*state) for client, state in states.items()})
    message, downlink = decode(opened, commands.COMMANDS, PIPE_BYTES)
    assert isinstance(message, commands.Open)
    assert downlink is not None
    assignment = Assignment(run.setup.run, message.round, message.exchange, message.base, downlink)
    made = []
    for client, frames, timing, notes in run.clients.perform(assignment, kept):
        (head,) = encode(commands.Performed(client, timing[:4], notes))
        made.append(Performed(bytes(head), _bytes(frames), dict(run.states[client].left)))
    return made


def _run_of(opening: Sequence[Sequence[bytes]], samples: Samples | None) -> _Run:
    begin = bytes(opening[0][0]).hex()
    if begin not in _last:
        _last.clear()
        _last[begin] = _Run(opening, samples)
    return _last[begin]


def _bytes(frames: Frames) -> list[bytes]:
    return [bytes(frame) for frame in frames]
