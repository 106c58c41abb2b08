"""`coordinator simulate`: a whole run on this machine, by the same rounds, halves and encoding as with real devices.

Function calls stand for sockets: every task and every update is encoded and decoded as on the wire, so payload and
encoded bytes are those of a loopback run, and with the same config and seed so are all global arrays and accuracies,
whoever works for the clients and in whatever order. The clock that deadlines run by is a simulated one: it goes on by
what work and messages take on the clients' profiles, and stands still without any, so that every client is in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from pathlib import Path

from coordinator import round_events
from coordinator.aggregator.half import Constant
from coordinator.aggregator.own_half import OwnHalf
from coordinator.app import RunRequest, recorded
from coordinator.conductor import Conductor
from coordinator.config import RunConfig
from coordinator.gate import Gate
from coordinator.loopback_clients import client_names
from coordinator.metrics.ledger import Cost, Ledger
from coordinator.metrics.tally import Report
from coordinator.misfits import Misfits
from coordinator.notes import goes_on, run_notes
from coordinator.rounds import Rounds
from coordinator.simulation.clients import Assignment, Done
from coordinator.simulation.clock import Arrival, SimulatedClock
from coordinator.simulation.fleet import Fleet, Trip
from coordinator.simulation.hosts import ClientHost
from coordinator.simulation.jobs import ClientsFailedError
from coordinator.simulation.opening import open_host, settle_batched, setup_of
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder, run_token
from coordinator.store.schema import in_words
from coordinator.store.store import StoreError
from models import methods
from models.checkpoint import CheckpointError
from models.data import ClientParts
from models.methods.faults import MethodError, made_by, named
from models.partition import named_rows
from models.spec import ConfigError, RunSpec
from models.steps import TrainingDivergedError
from wire.encoding import Packed, decode, encode
from wire.errors import EncodeError, RecordError, UnfitArrayError
from wire.exit_codes import ExitCode
from wire.framing import framed_bytes
from wire.messages import Constant as ConstantMessage
from wire.messages import Ready, RefusalCode, Update
from wire.sockets.signals import ended_by_signals, run_daemon
from wire.tensors import Buffer

RATE_EVERY_S = 10.0
"""People are told the speed and the time left this often."""

LAST_WORDS = "what was at work did not end in time; --resume goes on as after a kill, unless the store is in memory"
"""What a signal ends in the midst of, where nothing can be asked to stop."""


class Simulation:
    """One simulated run, from start to exit code."""

    def __init__(self, config: RunConfig, spec: RunSpec, record: RunRecord, modules: Path) -> None:
        self._config = config
        self._spec = spec
        self._record = record
        self._modules = modules
        self._method = methods.find(spec.method)
        self._token = run_token(spec.run_id)
        self._names = client_names(config.data.num_clients)
        section = config.simulation
        self._fleet = Fleet(section.fleet_profiles(), section.coordinator_s, self._names, spec)
        self._clock = SimulatedClock()
        self._ledger = Ledger(spec, self._method, simulated_now=self._simulated_now)
        self._gate = Gate(config.gate, spec.classes)
        self._misfits = Misfits(config.gate.max_refusals, record.standing.misfits)
        rules = config.round_rules(len(self._method.exchanges), record.mode)
        self._rounds = Rounds(rules, record.standing.position, self._misfits.left_out)
        self._half = OwnHalf(spec)
        self._conductor = Conductor(
            self._rounds,
            self._method,
            self._half,
            record,
            self._ledger,
            lambda: self._clock.now,
            self._feed,
            self._finish,
        )
        self._host: ClientHost | None = None
        self._asked: list[str] = []
        self._ended: tuple[ExitCode, str] | None = None
        self._num_done = 0
        self._noted: set[tuple[str, str]] = set()

    async def run(self) -> ExitCode:
        """Simulate the run to its end, or until it is interrupted."""
        self._record.attach(self._on_store_failed)
        if self._record.standing.constants is not None:
            self._record.display.note(goes_on(self._rounds, self._method))
        for told in run_notes(self._config, self._spec, needs_torch=True):
            self._record.display.note(told)
        try:
            await self._make_clients()
            self._told_at = self._started_at = time.monotonic()
            self._gather(self._spec.num_rounds + 1 if self._rounds.evaluating else self._rounds.round)
            self._feed(round_events.Ticked(self._clock.now))  # nobody may be there
            while self._ended is None:
                await self._step()
        except (MethodError, ClientsFailedError, TrainingDivergedError, UnfitArrayError, RecordError) as error:
            self._record.display.log(traceback.format_exc())
            self._end(ExitCode.FAILED, f"method {self._method.name}: {error}")
        except ConfigError:  # of data and nets, before anything has happened
            raise
        except EncodeError as error:
            self._end(ExitCode.BAD_CONFIG, f"method {self._method.name}: {error}")
        except CheckpointError as error:
            self._end(ExitCode.INTERRUPTED, str(error))
        except (OSError, StoreError) as error:
            self._end(ExitCode.INTERRUPTED, f"cannot write: {in_words(error, self._record.folder.path)}")
        except Exception as error:  # whatever a net or data set does
            self._record.display.note(traceback.format_exc())
            self._end(ExitCode.FAILED, named(error))
        finally:
            if self._host is not None:
                await self._host.close()
        return self._close(*(self._ended or (ExitCode.INTERRUPTED, "")))

    def interrupt(self, reason: str) -> None:
        """Let the run end where it is, to go on later; a signal's handler may call this in the midst of anything."""
        self._end(ExitCode.INTERRUPTED, reason)

    def _close(self, code: ExitCode, reason: str) -> ExitCode:
        trainer_peak_bytes = self._host.peak_rss_bytes() if self._host is not None else None
        try:
            peaks = {**self._conductor.peaks(), "trainer_peak_rss_bytes": trainer_peak_bytes}
            outcome = code.outcome
            with contextlib.closing(self._record):
                self._record.finish(self._ledger, self._half.versions, peaks, outcome, reason)
            if code == ExitCode.FINISHED:
                self._record.drop_client_states(self._names)
        except (OSError, StoreError) as error:
            told = in_words(error, self._record.folder.path)
            incomplete = f"the run's record is not complete: {told}"
            self._record.display.note(incomplete)
            code, reason = ExitCode.INTERRUPTED, reason if code == ExitCode.INTERRUPTED else incomplete
        self._record.display.note(f"the run is over: {code.outcome}" + (f" ({reason})" if reason else ""))
        return code

    async def _make_clients(self) -> None:
        made = await self._conductor.begin()
        self._clock.go_on_to(self._ledger.simulated_at_s or 0.0)
        costs: dict[str, Cost] = {}
        for constant in made:
            costs.setdefault(constant.digest, self._cost_of_constant(constant))
        parts = ClientParts(self._spec)
        self._record.folder.write_indices(named_rows(parts.splits))
        host = self._open_host(parts, made)
        announced: dict[str, Ready] = {}
        async with contextlib.aclosing(host.begin(self._names, made)) as answers:
            async for client, ready, notes, flops in answers:
                announced[client] = ready
                self._tell(client, notes)
                self._fleet.announce(client, ready, flops)
                for digest, cost in costs.items():
                    self._ledger.since_start.constant_sent(client, digest, cost)
                self._ledger.announce(client, ready)
        self._record.write_histogram(self._spec, announced)

    def _open_host(self, parts: ClientParts, constants: list[Constant]) -> ClientHost:
        """See who works for the clients, and write down what was left open in the settings."""
        folder, counts_flops = self._record.folder, self._fleet.counts_flops
        setup = setup_of(self._config, self._spec, folder, counts_flops)
        config = settle_batched(self._config, setup, parts, constants)
        if config != self._config:
            self._record.display.note(f"[simulation] batched = 'auto': {str(config.simulation.batched).lower()}")
            self._record.write_config(config)
        self._record.is_batched = config.simulation.batched is True
        setup = setup_of(config, self._spec, folder, counts_flops)
        self._host = host = open_host(config, setup, folder, self._modules, parts)
        if self._ended is not None:
            host.stop()
        return host

    def _cost_of_constant(self, constant: Constant) -> Cost:
        message = ConstantMessage(self._token, constant.name, constant.digest)
        with made_by(f"run constant {constant.name!r}"):
            frames = encode(message, constant.packed, self._config.transport.max_message_bytes)
        return cost_of(constant.packed, frames)

    async def _step(self) -> None:
        """Let those that were asked work, or carry out what the rounds instruct, or else let time pass."""
        await asyncio.sleep(0)  # the store is heard here
        if self._asked:
            await self._work()
        elif self._conductor.has_work:
            await self._conductor.drain()
        else:
            self._let_time_pass()

    async def _work(self) -> None:
        """Have all that were asked do the open exchange, and put their updates under way."""
        assert self._host is not None
        exchange, asked, self._asked = self._conductor.exchange, self._asked, []
        assignment = Assignment(self._token, exchange.round, exchange.index, self._rounds.base, exchange.downlink)
        kept = {client: self._rounds.kept_of(client) for client in asked}
        with made_by(f"downlink {self._conductor.declared().at(exchange.round)}"):
            assignment.frames(0, self._config.transport.max_message_bytes)
        for client in asked:
            self._clock.abandon(client)
            if not self._rounds.evaluating and self._fleet.drops_out(client, exchange.round, exchange.index):
                frames = assignment.frames(kept.pop(client), self._config.transport.max_message_bytes)
                self._ledger.task_sent(client, cost_of(exchange.downlink, frames), time.monotonic())
        num_before = len(self._rounds.cohort) - len(asked)
        async with contextlib.aclosing(self._host.perform(assignment, kept)) as answers:
            async for done in answers:
                num_before += 1
                self._put_under_way(assignment, kept[done.client], done)
                self._record.display.progress(exchange.round, exchange.index, num_before, len(self._rounds.cohort))
                self._tell_rate()

    def _put_under_way(self, assignment: Assignment, kept: int, done: Done) -> None:
        """Book a client's task, check its update, and see when that will come."""
        client, limit, now = done.client, self._config.transport.max_message_bytes, time.monotonic()
        task = assignment.frames(kept, limit)
        work_s = done.timing.work_s
        self._ledger.task_sent(client, cost_of(assignment.downlink, task), None if work_s is None else now - work_s)
        self._tell(client, done.notes)
        update, packed = decode(done.frames, max_bytes=limit)
        assert isinstance(update, Update)
        assert packed is not None
        trip = self._trip(client, assignment.round, task, done.frames)
        self._clock.expect(
            Arrival(
                at=self._clock.now + trip.back_s,
                client=client,
                round=assignment.round,
                exchange=assignment.exchange,
                trains_until=self._clock.now + trip.trained_s,
                packed=packed,
                cost=cost_of(packed, done.frames),
                report=Report.of(update.evaluations, done.timing),
                made_at=now,
                misfit=self._conductor.misfit(client, packed, self._gate),
            )
        )
        self._num_done += 1

    def _trip(self, client: str, round: int, task: list[Buffer], update: list[Buffer]) -> Trip:
        """Return how long the open exchange takes a client; the last evaluation is no part of the run's time."""
        if self._rounds.evaluating:
            return Trip()
        down_bytes, up_bytes = (framed_bytes(frames, self._config.transport.is_encrypted) for frames in (task, update))
        return self._fleet.trip(client, down_bytes, up_bytes, round, self._conductor.declared().trains)

    def _let_time_pass(self) -> None:
        """Go on to what comes next: an update, or a moment at which the rounds wait no longer."""
        wakes_at, comes_at = self._rounds.next_wakeup(), self._clock.next_arrival()
        if comes_at is not None and (wakes_at is None or comes_at <= wakes_at):
            self._arrive(self._clock.take())
            return
        assert wakes_at is not None, "nothing is under way, and nothing is waited for"
        self._clock.go_on_to(wakes_at)
        for coming in self._clock.under_way():  # its client trains, or a message moves
            self._feed(round_events.ProgressMade(coming.client, coming.round, coming.exchange, self._clock.now))
        self._feed(round_events.Ticked(self._clock.now))

    def _arrive(self, arrival: Arrival) -> None:
        where = (arrival.client, arrival.round, arrival.exchange)
        if arrival.misfit is not None and self._rounds.refusal_of(*where) is None:
            self._on_misfit(arrival.client, round_events.MisfitArrived(*where, arrival.misfit, self._clock.now))
        else:
            self._feed(round_events.UpdateArrived(*where, self._clock.now), arrival)

    def _on_misfit(self, client: str, event: round_events.MisfitArrived) -> None:
        """Refuse an update, and leave its client out if those are too many."""
        self._record.display.note(f"{client}: update refused ({RefusalCode.MALFORMED}): {event.reason}")
        self._ledger.update_refused(client)
        self._feed(event)
        reason = self._misfits.add(client)
        self._record.put_refusals(self._misfits.counts, self._ledger.since_start.refusals)
        if reason:
            self._record.display.note(reason)
            self._feed(round_events.ClientGone(client, self._clock.now, for_good=True))

    def _feed(self, event: round_events.Event, arrival: Arrival | None = None) -> None:
        if isinstance(event, round_events.Restored) or self._closes_round(event):
            self._gather(self._rounds.round + 1)
        for instruction in self._rounds.handle(event):
            if isinstance(instruction, round_events.SendTask):
                self._asked.append(instruction.client)
            elif isinstance(instruction, round_events.Accept):
                assert arrival is not None
                self._accept(arrival)
            elif isinstance(instruction, round_events.Refuse):
                self._ledger.since_start.refused(instruction.code)
            else:
                self._conductor.put(instruction)

    def _closes_round(self, event: round_events.Event) -> bool:
        is_last = self._rounds.exchange == len(self._method.exchanges) - 1
        return isinstance(event, round_events.Aggregated) and not event.failure and is_last

    def _gather(self, round: int) -> None:
        """Let clients come and go before a round opens; for the evaluation after the last one all are there."""
        for client in (name for name in self._names if name not in self._rounds.left_out):
            is_there = round > self._spec.num_rounds or self._fleet.is_there(client, round)
            if is_there and client not in self._rounds.ready:
                self._feed(round_events.ClientReady(client, self._clock.now))
            elif not is_there and client in self._rounds.ready:
                self._feed(round_events.ClientGone(client, self._clock.now))

    def _accept(self, arrival: Arrival) -> None:
        self._conductor.exchange.accept(arrival.client, self._ledger.num_train([arrival.client]), arrival.packed)
        self._ledger.update_accepted(arrival.client, arrival.cost, arrival.report, arrival.made_at)

    def _simulated_now(self) -> float | None:
        return self._clock.now if self._fleet.takes_time else None

    def _tell(self, client: str, notes: list[str]) -> None:
        """Tell what is new of a client; each job notes by itself what it finds."""
        for note in notes:
            if (client, note) not in self._noted:
                self._noted.add((client, note))
                self._record.display.note(f"{client}: {note}")

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

    def _finish(self, finish: round_events.Finish) -> None:
        self._end(ExitCode.FINISHED if finish.outcome == "finished" else ExitCode.FAILED, finish.reason)

    def _end(self, code: ExitCode, reason: str) -> None:
        if self._ended is None:
            self._ended = (code, reason)
            self._record.wait_no_more()
            if self._host is not None:
                self._host.stop()

    def _on_store_failed(self, error: StoreError) -> None:
        self._end(ExitCode.INTERRUPTED, str(error))


def cost_of(packed: Packed, frames: list[Buffer]) -> Cost:
    """Return what a message would cost; nothing travels, so there are no bytes on a wire."""
    return Cost.of(packed, frames, False)._replace(wire_bytes=None)


def simulate(config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None) -> ExitCode:
    """Simulate one run to its end; with a folder, go on with the run there."""

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        simulation = Simulation(config, spec, record, modules)
        with ended_by_signals(simulation.interrupt, LAST_WORDS):
            return run_daemon(simulation.run())

    return recorded(RunRequest(config, "simulate", modules, init_from, folder), go)
