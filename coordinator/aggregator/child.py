"""The aggregator: the coordinator's child process, which runs the method's server half and nothing else.

    python -I -m coordinator.aggregator --pipe FD

It answers `commands` one at a time. Contributions are decoded one by one as the server half asks for them, so memory
does not grow with the number of clients. It holds no state that the daemon does not also have: every `Aggregated`
carries all of it, and `Begin` puts the server half back to any earlier state.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator

from coordinator.aggregator import commands
from coordinator.aggregator.local_half import LocalHalf
from coordinator.metrics.versions import installed_versions
from models.failpoints import reach
from models.methods.api import RoundFailedError
from models.methods.faults import MethodError, named
from models.spec import in_one_line, read_spec
from wire.encoding import EMPTY_PACKED, Packed, decode, encode, unpack
from wire.errors import UnfitArrayError
from wire.limits import PIPE_BYTES
from wire.messages import Message
from wire.payload import Payload
from wire.sockets.pipe import ChildPipe, given_pipe


class Aggregator:
    """The server half behind a pipe."""

    def __init__(self, pipe: ChildPipe) -> None:
        self._pipe = pipe
        self._half: LocalHalf

    def serve(self) -> None:
        """Answer commands until the daemon closes the pipe."""
        while True:
            try:
                message, payload = self._receive()
            except EOFError:
                return
            try:
                self._answer(message, payload)
            except RoundFailedError as error:
                self._send(commands.Unusable(in_one_line(str(error)), round_only=True))
            except UnfitArrayError as error:
                self._send(commands.Unusable(str(error), round_only=False))
            except Exception as error:
                traceback.print_exc()
                told = str(error) if isinstance(error, MethodError) else named(error)
                self._send(commands.Unusable(told, round_only=False))

    def _answer(self, message: Message, payload: Payload) -> None:
        if isinstance(message, commands.Begin):
            self._begin(message, payload)
        elif isinstance(message, commands.Configure):
            self._send(commands.Configured(), self._half.configure(message.round, message.exchange))
        elif isinstance(message, commands.Aggregate):
            self._aggregate(message)
        else:
            raise TypeError(f"expected a command, got {type(message).__name__}")

    def _begin(self, message: commands.Begin, payload: Payload) -> None:
        if message.folder and message.folder not in sys.path:
            sys.path.append(message.folder)
        if message.log:
            _write_to(message.log)
        self._half = LocalHalf(read_spec(message.spec), payload, message.num_train)
        if message.wants_constants:
            for made in self._half.constants():
                self._send(commands.ConstantMade(made.name, made.digest), made.packed)
        reach("half.begun")
        self._send(commands.Begun(self._half.global_hash, installed_versions()))

    def _aggregate(self, message: commands.Aggregate) -> None:
        contributions = self._contributions(message.num_contributions)
        try:
            made = self._half.aggregate(message.round, message.exchange, contributions)
        finally:
            for _ in contributions:  # what the server half left unread must not be taken for the next command
                pass
        reach("half.aggregated")
        self._send(commands.Aggregated(made.global_hash, made.metrics), made.state)
        reach("half.answered")

    def _contributions(self, count: int) -> Iterator[tuple[str, int, Payload]]:
        for _ in range(count):
            contribution, payload = self._receive()
            assert isinstance(contribution, commands.Contribution)
            reach("contribution.received")
            yield contribution.client, contribution.num_train, payload

    def _receive(self) -> tuple[Message, Payload]:
        message, packed = decode(self._pipe.receive(), commands.COMMANDS, PIPE_BYTES)
        return message, unpack(packed or EMPTY_PACKED)

    def _send(self, message: Message, packed: Packed | None = None) -> None:
        self._pipe.send(encode(message, packed, PIPE_BYTES))


def _write_to(log: str) -> None:
    """Have all output go to the end of a file."""
    with open(log, "ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def main() -> None:
    """Run the aggregator on the pipe that the daemon gave."""
    Aggregator(given_pipe()).serve()
