"""A job: a child process of a simulation that works for its clients, whichever it is asked to.

    python -I -m coordinator.simulation.job --pipe FD

It keeps nothing that another job would need: a client's states are in its folder. So a job that dies is replaced, and
what it had in hand is done again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from coordinator.simulation import commands
from coordinator.simulation.clients import Assignment, VirtualClients
from coordinator.simulation.hosts import constants_of
from coordinator.store.schema import in_words
from models.checkpoint import CheckpointError
from models.data import ClientParts
from models.methods.faults import MethodError, named
from models.shared_data import read_shared
from models.spec import ConfigError
from wire.encoding import Packed, decode, encode
from wire.errors import EncodeError, RecordError, UnfitArrayError
from wire.limits import PIPE_BYTES
from wire.messages import Message
from wire.sockets.pipe import ChildPipe


class Job:
    """Clients' work behind a pipe."""

    def __init__(self, pipe: ChildPipe) -> None:
        self._pipe = pipe

    def serve(self) -> None:
        """Answer commands until the simulation closes the pipe."""
        try:
            self._begin()
            while True:
                self._answer(*self._receive())
        except EOFError:
            return
        except ConfigError as error:
            self._send(commands.Failed("setting", str(error)))
        except (MethodError, UnfitArrayError, RecordError) as error:
            traceback.print_exc()
            self._send(commands.Failed("method", str(error)))
        except EncodeError as error:
            self._send(commands.Failed("size", str(error)))
        except CheckpointError as error:
            self._send(commands.Failed("state", str(error)))
        except OSError as error:
            self._send(commands.Failed("disk", in_words(error, Path.cwd())))
        except Exception as error:  # whatever a method, net or data set does
            traceback.print_exc()
            self._send(commands.Failed("method", named(error)))

    def _begin(self) -> None:
        begin, _ = self._receive()
        assert isinstance(begin, commands.Begin)
        if begin.modules not in sys.path:
            sys.path.append(begin.modules)
        self._setup = begin.setup
        parts = ClientParts(self._setup.spec, read_shared(Path(begin.samples)) if begin.samples else None)
        constants = constants_of([commands.read_constant(self._pipe.receive()) for _ in range(begin.num_constants)])
        self._clients = VirtualClients(self._setup, parts, constants)

    def _answer(self, message: Message, packed: Packed | None) -> None:
        if isinstance(message, commands.Announce):
            for client in message.clients:
                self._send(commands.Announced(*self._clients.announce(client)))
        elif isinstance(message, commands.Open):
            assert packed is not None
            self._assignment = Assignment(self._setup.run, message.round, message.exchange, message.base, packed)
        elif isinstance(message, commands.Perform):
            for client, frames, timing, notes in self._clients.perform(self._assignment, message.kept):
                head = encode(commands.Performed(client, timing[:4], notes))
                self._pipe.send([*head, *frames])
        else:
            raise TypeError(f"expected a command, got {type(message).__name__}")

    def _receive(self) -> tuple[Message, Packed | None]:
        return decode(self._pipe.receive(), commands.COMMANDS, PIPE_BYTES)

    def _send(self, message: Message) -> None:
        self._pipe.send(encode(message))


def main() -> None:
    """Run the job on the pipe that the simulation gave."""
    parser = argparse.ArgumentParser(prog="coordinator.simulation.job")
    parser.add_argument("--pipe", type=int, required=True)
    Job(ChildPipe(parser.parse_args().pipe)).serve()


if __name__ == "__main__":
    main()
