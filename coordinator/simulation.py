"""`coordinator simulate`: a whole run in one process, by the same rounds, halves and encoding as with real devices.

Function calls stand for sockets: every task and every update is encoded and decoded as on the wire, so payload and
encoded bytes are those of a loopback run, and with the same config and seed so are all global arrays and accuracies.
Clients take their turns one after the other. The clock that deadlines run by stands still: every client is in time.
"""

from __future__ import annotations

import asyncio
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from coordinator import round_events as rounds
from coordinator.app import Order, recorded
from coordinator.conductor import Conductor, Contributions
from coordinator.config import RunConfig
from coordinator.gate import Gate
from coordinator.local_half import LocalHalf
from coordinator.loopback_clients import client_names
from coordinator.metrics import Cost, Ledger
from coordinator.record import RunRecord, outcome_of
from coordinator.rounds import Rounds
from coordinator.run_folder import RunFolder, run_token
from coordinator.server_half import Aggregate, Constant, RoundUnusableError, ServerHalfError
from coordinator.store import StoreError
from coordinator.tally import Report
from coordinator.versions import installed_versions
from coordinator.virtual import VirtualClient, constants_of
from models import methods
from models.audit import keep_features
from models.checkpoint import state_hash
from models.data import ClientParts
from models.methods.api import RoundFailedError
from models.partition import named_rows
from models.spec import ConfigError, RunSpec
from wire.encoding import Packed, decode, encode, pack, unpack
from wire.errors import EncodeError
from wire.exit_codes import ExitCode
from wire.messages import Constant as ConstantMessage
from wire.messages import Task, Update
from wire.payload import EMPTY, Payload
from wire.tensors import Buffer

RATE_EVERY_S = 10.0
"""People are told the speed and the time left this often."""


class OwnHalf:
    """The server half in this process, asked as one in a process of its own is."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._half: LocalHalf
        self._state: Packed | None = None
        self.global_hash = ""
        self.versions = installed_versions()

    @property
    def state(self) -> Packed | None:
        """The latest state, None before the first aggregation."""
        return self._state

    @property
    def pid(self) -> None:
        """Nothing: the server half has no process of its own."""

    async def begin(self, state: Packed | None, num_train: int = 0, wants_constants: bool = False) -> list[Constant]:
        """Put the server half to this state (None: before round 1); return the run constants if they are wanted."""
        self._state = state
        self._half = LocalHalf(self._spec, unpack(state) if state is not None else EMPTY, num_train)
        self.global_hash = self._half.global_hash
        made = self._half.constants().items() if wants_constants else ()
        return [Constant(name, state_hash(arrays), pack(Payload.of_state(arrays))) for name, arrays in made]

    async def configure(self, round: int, exchange: str) -> Packed:
        """Return the downlink of an exchange."""
        return pack(self._half.configure(round, exchange))

    async def aggregate(
        self, round: int, exchange: str, contributions: Contributions, count: int, meanwhile: Callable[[], None]
    ) -> Aggregate:
        """Take in the accepted updates and return what the server half made of them."""
        meanwhile()
        try:
            unpacked = ((client, num_train, unpack(packed)) for client, num_train, packed in contributions())
            made = self._half.aggregate(round, exchange, unpacked)
        except RoundFailedError as error:
            raise RoundUnusableError(str(error)) from error
        self._state, self.global_hash = pack(made.state), made.global_hash
        return Aggregate(self._state, made.global_hash, made.metrics)


class Simulation:
    """One simulated run, from start to exit code."""

    def __init__(self, config: RunConfig, spec: RunSpec, record: RunRecord) -> None:
        self._config = config
        self._spec = spec
        self._record = record
        self._method = methods.find(spec.method)
        self._token = run_token(spec.run_id)
        self._ledger = Ledger(spec, self._method)
        self._gate = Gate(config.gate, spec.classes)
        self._rounds = Rounds(config.round_rules(len(self._method.exchanges)), record.standing.position)
        self._half = OwnHalf(spec)
        self._conductor = Conductor(
            self._rounds, self._method, self._half, record, self._ledger, lambda: 0.0, self._feed, self._finish
        )
        self._clients: dict[str, VirtualClient] = {}
        self._tasks: list[str] = []
        self._ended: tuple[ExitCode, str] | None = None
        self._num_done = 0

    async def run(self) -> ExitCode:
        """Simulate the run to its end, or to the next client after a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, ExitCode.INTERRUPTED, f"stopped by {number.name}")
        self._record.attach(self._on_store_failed)
        try:
            await self._make_clients()
            self._told_at = self._started_at = time.monotonic()
            for client in self._clients:
                self._feed(rounds.ClientReady(client, 0.0))
            while self._ended is None:
                await self._step()
        except ServerHalfError as error:
            self._end(ExitCode.FAILED, f"method {self._method.name}: {error}")
        except ConfigError:  # of data and nets, before anything has happened
            raise
        except EncodeError as error:
            self._end(ExitCode.BAD_CONFIG, str(error))
        except (OSError, StoreError) as error:
            self._end(ExitCode.INTERRUPTED, f"cannot write: {error}")
        except Exception as error:  # whatever a method, net or data set does
            self._record.display.note(traceback.format_exc())
            self._end(ExitCode.FAILED, f"{type(error).__name__}: {error}")
        code, reason = self._ended or (ExitCode.INTERRUPTED, "")
        try:
            peaks = self._conductor.peaks()
            self._record.finish(self._ledger, self._half.state, self._half.versions, peaks, outcome_of(code))
            self._record.close()
            if code == ExitCode.FINISHED:
                self._record.drop_client_states(self._clients)
        except (OSError, StoreError) as error:
            code, reason = ExitCode.INTERRUPTED, f"the run's record is not complete: {error}"
        self._record.display.note(f"the run is over: {outcome_of(code)}" + (f" ({reason})" if reason else ""))
        return code

    async def _make_clients(self) -> None:
        from models.nets import NetShelf

        made = await self._conductor.begin()
        constants, costs = constants_of(made), [self._cost_of_constant(constant) for constant in made]
        shelf, parts = NetShelf(), ClientParts(self._spec)
        self._record.write_indices(named_rows(parts.splits))
        for index, name in enumerate(client_names(self._config.data.num_clients)):
            await self._take_signals()
            if self._ended is not None:
                return
            client = VirtualClient(self._spec, name, index, parts, constants, shelf, self._record.client_folder(name))
            self._clients[name] = client
            self._tell_notes(name)
            for cost in costs:
                self._ledger.init_sent(name, cost)
            self._ledger.announce(name, client.ready(self._token))
        announced = {name: client.ready(self._token) for name, client in self._clients.items()}
        self._record.write_histogram(self._spec, announced)

    def _cost_of_constant(self, constant: Constant) -> Cost:
        message = ConstantMessage(self._token, constant.name, constant.digest)
        return cost_of(constant.packed, encode(message, constant.packed, self._config.transport.max_message_bytes))

    async def _step(self) -> None:
        """Let the next client do its task, or if none is left, carry out what the rounds instruct."""
        await self._take_signals()
        if self._tasks:
            self._perform(self._tasks.pop(0))
            self._tell_rate()
        else:
            await self._conductor.drain()

    async def _take_signals(self) -> None:
        await asyncio.sleep(0)

    def _perform(self, name: str) -> None:
        """Send one client its task, and its update back."""
        limit = self._config.transport.max_message_bytes
        exchange, kept = self._conductor.exchange, self._rounds.kept.get(name, 0)
        task = Task(self._token, exchange.round, exchange.index, kept, self._rounds.base)
        frames = encode(task, exchange.downlink, limit)
        self._ledger.task_sent(name, cost_of(exchange.downlink, frames), time.monotonic())
        timing, made = self._clients[name].perform(frames, limit)
        self._tell_notes(name)
        if self._clients[name].features:
            keep_features(self._record.folder.client_folder(name), exchange.round, self._clients[name].features)
        update, packed = decode(made, max_bytes=limit)
        assert isinstance(update, Update)
        assert packed is not None
        misfit = self._conductor.misfit(name, packed, self._gate)
        if misfit is not None:
            raise ServerHalfError(f"{name}: {misfit}")
        exchange.accept(name, self._ledger.facts(name).num_train, packed)
        report = Report.of(update.evaluations, timing)
        self._ledger.update_accepted(name, cost_of(packed, made), report, time.monotonic())
        self._record.display.progress(exchange.round, exchange.index, len(exchange.accepted), len(self._rounds.cohort))
        self._num_done += 1
        self._feed(rounds.UpdateArrived(name, exchange.round, exchange.index, 0.0))

    def _tell_notes(self, name: str) -> None:
        for note in self._clients[name].notes:
            self._record.display.note(f"{name}: {note}")

    def _tell_rate(self) -> None:
        """Say now and then how fast it goes and how long it will take."""
        now = time.monotonic()
        if now - self._told_at < RATE_EVERY_S:
            return
        self._told_at = now
        per_s = self._num_done / (now - self._started_at)
        rounds_left = self._spec.num_rounds - self._rounds.round + 1
        left = rounds_left * len(self._rounds.cohort) * len(self._method.exchanges) - len(self._rounds.answered)
        self._record.display.note(f"{per_s:.1f} clients/s, about {max(0, left) / per_s:.0f} s left")

    def _feed(self, event: rounds.Event) -> None:
        for instruction in self._rounds.handle(event):
            if isinstance(instruction, rounds.SendTask):
                self._tasks.append(instruction.client)
            elif not isinstance(instruction, rounds.Accept):
                self._conductor.put(instruction)

    def _finish(self, finish: rounds.Finish) -> None:
        self._end(ExitCode.FINISHED if finish.outcome == "finished" else ExitCode.FAILED, finish.reason)

    def _end(self, code: ExitCode, reason: str) -> None:
        self._ended = self._ended or (code, reason)

    def _on_store_failed(self, error: StoreError) -> None:
        self._end(ExitCode.INTERRUPTED, str(error))


def cost_of(packed: Packed, frames: list[Buffer]) -> Cost:
    """Return what a message would cost; nothing travels, so there are no bytes on a wire."""
    return Cost.of(packed, frames, False)._replace(wire_bytes=None)


def simulate(config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None) -> ExitCode:
    """Simulate one run to its end; with a folder, go on with the run there."""

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        return asyncio.run(Simulation(config, spec, record).run())

    return recorded(Order(config, "simulate", modules, init_from, folder), go)
