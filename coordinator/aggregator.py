"""The aggregator: the coordinator's child process, which runs the method's server half and nothing else.

    python -I -m coordinator.aggregator --pipe FD

It answers `commands` one at a time. Contributions are decoded one by one as the server half asks for them, so memory
does not grow with the number of clients. It holds no state that the daemon does not also have: every `Aggregated`
carries all of it, and `Begin` puts the server half back to any earlier state.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator

from coordinator import commands
from coordinator.versions import installed_versions
from models.checkpoint import state_hash
from models.methods import find, read_config
from models.methods.api import Method, RoundFailedError, Server, Update
from models.spec import RunSpec, read_spec
from wire.encoding import decode, encode, pack, unpack
from wire.messages import Message
from wire.payload import EMPTY, Payload
from wire.sockets.child import ChildPipe

PIPE_BYTES = 1 << 32
"""No size limit on the pipe: what the network may carry was limited before."""


class Aggregator:
    """The server half behind a pipe."""

    def __init__(self, pipe: ChildPipe) -> None:
        self._pipe = pipe
        self._spec: RunSpec
        self._method: Method
        self._server: Server

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
                self._send(commands.Unusable(str(error), round_only=True))
            except Exception as error:
                traceback.print_exc()
                self._send(commands.Unusable(f"{type(error).__name__}: {error}", round_only=False))

    def _answer(self, message: Message, payload: Payload) -> None:
        if isinstance(message, commands.Begin):
            self._begin(message, payload)
        elif isinstance(message, commands.Configure):
            record = self._server.configure(message.round, message.exchange)
            self._send(commands.Configured(), record.to_payload(self._spec.wire.value_dtype))
        elif isinstance(message, commands.Aggregate):
            self._aggregate(message)
        else:
            raise TypeError(f"expected a command, got {type(message).__name__}")

    def _begin(self, message: commands.Begin, payload: Payload) -> None:
        if message.folder and message.folder not in sys.path:
            sys.path.append(message.folder)
        self._spec = read_spec(message.spec)
        self._method = find(self._spec.method)
        self._server = self._method.make_server(self._spec, read_config(self._method, self._spec.method_config))
        if payload.tensors:
            self._server.load(payload.arrays)
        if message.wants_constants:
            for name, arrays in self._server.constants().items():
                self._send(commands.ConstantMade(name, state_hash(arrays)), Payload.of_state(arrays))
        self._send(commands.Begun(state_hash(self._server.arrays()), installed_versions()))

    def _aggregate(self, message: commands.Aggregate) -> None:
        contributions = self._contributions(message)
        try:
            metrics = self._server.aggregate(message.round, message.exchange, contributions)
        finally:
            for _ in contributions:  # what the server half left unread must not be taken for the next command
                pass
        state = self._server.arrays()
        told = {name: float(number) for name, number in metrics.items()}
        self._send(commands.Aggregated(state_hash(state), told), Payload.of_state(state))

    def _contributions(self, message: commands.Aggregate) -> Iterator[Update]:
        exchange = next(kind for kind in self._method.exchanges if kind.name == message.exchange)
        for _ in range(message.num_contributions):
            contribution, payload = self._receive()
            assert isinstance(contribution, commands.Contribution)
            record = exchange.uplink.from_payload(payload)
            yield Update(contribution.client, contribution.num_train, record)

    def _receive(self) -> tuple[Message, Payload]:
        message, packed = decode(self._pipe.receive(), commands.COMMANDS, PIPE_BYTES)
        return message, unpack(packed) if packed is not None else EMPTY

    def _send(self, message: Message, payload: Payload | None = None) -> None:
        packed = pack(payload) if payload is not None else None
        self._pipe.send(encode(message, packed, PIPE_BYTES))


def main() -> None:
    """Run the aggregator on the pipe that the daemon gave."""
    parser = argparse.ArgumentParser(prog="coordinator.aggregator")
    parser.add_argument("--pipe", type=int, required=True)
    Aggregator(ChildPipe(parser.parse_args().pipe)).serve()


if __name__ == "__main__":
    main()
