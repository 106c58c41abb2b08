"""The coordinator daemon: carries out what `rounds` decides, between clients, store, accounts and the server half.

Messages are handled as they come. What takes time, asking the server half and waiting until something is durable, is
done by one task that takes instructions in order, so the next exchange opens only when the last one cannot be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from coordinator import round_events
from coordinator.acks import Acks
from coordinator.aggregator.server_half import ServerHalf, Spare
from coordinator.alarm import Alarm
from coordinator.clients.awaited import Wait, awaited
from coordinator.clients.door import Arrival, OpenPort
from coordinator.clients.lobby import Events, Lobby
from coordinator.clients.movement import tell_movement
from coordinator.clients.turned_away import TurnedAway
from coordinator.clients.undelivered import Undelivered
from coordinator.clients.waiting import Presence, tell_waiting
from coordinator.conductor import Conductor
from coordinator.config import RunConfig
from coordinator.exchange import OpenExchange
from coordinator.gate import Gate
from coordinator.grants import Grants
from coordinator.loopback_clients import Clients
from coordinator.metrics.ledger import Cost, Ledger
from coordinator.metrics.links import Links
from coordinator.metrics.meter import Meter
from coordinator.metrics.tally import Report
from coordinator.misfits import Misfits
from coordinator.notes import goes_on, run_notes
from coordinator.rounds import Rounds
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import run_token
from coordinator.store.schema import in_words
from coordinator.store.store import StoreError
from coordinator.tasks import Tasks
from models import methods
from models.failpoints import reach
from models.methods.faults import MethodError, named
from models.spec import ConfigError, RunSpec
from wire.encoding import Frames, Packed, encode
from wire.errors import EncodeError
from wire.exit_codes import ExitCode
from wire.messages import Ack, Finish, Grant, Message, Offer, Progress, Ready, Refusal, RefusalCode, Update, Welcome
from wire.messages import Constant as ConstantMessage
from wire.sockets.systemd import ServiceManager
from wire.timing import Timing

FAREWELL_S = 2.0
"""How long clients have to say goodbye after the run is over."""


class Coordinator:
    """One run, from start to exit code; in its `lobby` is everybody who is connected to it."""

    def __init__(
        self,
        config: RunConfig,
        spec: RunSpec,
        modules: Path,
        record: RunRecord,
        open_port: OpenPort,
        systemd: ServiceManager,
        spare: Spare = lambda: None,
    ) -> None:
        """Bring the parts together; `run` opens the port, and tells systemd when the run is up and when it ends."""
        self._config = config
        self.reason = ""
        """Why it is over, for people, once it is."""
        self._systemd = systemd
        self._open_port = open_port
        self._spec = spec
        self._display = record.display
        self._record = record
        self._method = methods.find(spec.method)
        self._token = run_token(spec.run_id)
        links = Links(record.standing.links, lambda route: self._door.counters(route))
        self._ledger = Ledger(spec, self._method, links)
        self._meter = Meter(record, self._ledger, links, config.transport.is_encrypted)
        self._gate = Gate(config.gate, spec.classes)
        self._misfits = Misfits(config.gate.max_refusals, record.standing.misfits)
        rules = config.round_rules(len(self._method.exchanges), record.mode)
        self._rounds = Rounds(rules, record.standing.position, self._misfits.left_out)
        plain = msgspec.to_builtins(spec)
        self._half = ServerHalf(
            plain, modules, record.folder.log_path, config.training.threads, config.round.max_exchange_s, spare
        )
        welcome = Welcome(
            self._token, spec.run_id, config.transport.heartbeat_s, config.transport.max_message_bytes, plain
        )
        self._turned_away = TurnedAway(record.standing.turned_away, record.display.note)
        self._undelivered = Undelivered(record.standing.undelivered, record.display.note, record.put_undelivered)
        events = Events(
            ready=self._on_ready,
            gone=self._on_gone,
            constant_sent=self._on_constant_sent,
            undelivered=lambda client: self._undelivered.add(client, self._rounds.round),
            note=record.display.note,
            turned_away=self._turned_away.add,
            waiting=record.put_waiting,
            joined=self._meter.joined,
        )
        self.lobby = Lobby(
            spec,
            self._method,
            welcome,
            record.standing.announced,
            self._misfits.left_out,
            send=lambda *message: self._door.send(*message),
            counters=lambda route: self._door.counters(route),
            events=events,
        )
        self._wait: Callable[[], Wait] = lambda: awaited(self._rounds, self.lobby, record.waits_for_space())
        self._grants = Grants()
        self._conductor = Conductor(
            self._rounds, self._method, self._half, record, self._ledger, self._now, self._feed, self._finish
        )
        self._tasks = Tasks(self._token, self._rounds, self._conductor, config.transport)
        self._acks = Acks(self._acknowledge, self._rounds.last_accepted)
        self._alarm = Alarm(self._next_due, self._on_due)

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in the run but that its clients are told."""
        return self._ended.done()

    @property
    def where(self) -> tuple[int, str]:
        """The round in hand, and whom and what it waits for."""
        return self._rounds.round, self._wait().line(asyncio.get_running_loop().time())

    async def run(self, clients: Clients | None) -> ExitCode:
        """Serve the run to its end; in a loopback run its clients are started once there is an address."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[tuple[ExitCode, str]] = self._loop.create_future()
        self._goodbyes = asyncio.Event()
        self._door = self._open_port(self._on_arrival, self._on_barred, self._turned_away, self._meter.links.ended)
        self._record.attach(lambda error: self.end(ExitCode.INTERRUPTED, str(error)))
        if self._record.standing.constants is not None:
            self._display.note(goes_on(self._rounds, self._method))
        for told in (f"listening on {self._door.address}", *run_notes(self._config, self._spec)):
            self._display.note(told)
        self._systemd.ready(self._loop)
        waiting = tell_waiting(self._wait, self._rounds, self.lobby, self._display.note, self._put_presence)
        moving = tell_movement(
            self._rounds, self.lobby, self._door.counters, self._config.transport.heartbeat_s, self._feed
        )
        tasks = [self._loop.create_task(work) for work in (self._work(), waiting, moving)]
        if clients is not None and self._rounds.conclusion() is None:
            clients.start(self._door.address)
            tasks.append(self._loop.create_task(self._watch(clients)))
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        code, reason = await self._ended
        for task in tasks:
            task.cancel()
        code = await self._farewell(code, reason)
        self._door.close()
        return code

    async def _watch(self, clients: Clients) -> None:
        """End the run when one of its own client processes has given up."""
        self.end(*await clients.given_up(self._misfits.left_out))

    def end(self, code: ExitCode, reason: str) -> None:
        """End the run early: stopped, or impossible to go on with."""
        if not self._ended.done():
            self._ended.set_result((code, reason))

    async def _farewell(self, code: ExitCode, reason: str) -> ExitCode:
        """Tell the clients, hear their goodbyes, and write down how the run ended; return the exit code."""
        self._systemd.stopping()
        reach("run.over")
        self._alarm.cancel()
        self._acks.send_all()
        self.lobby.close()
        finish = encode(Finish(self._token, code.outcome, reason))
        for client in self.lobby.clients:
            self.lobby.send(client, finish, self._now())
        if self.lobby.clients:
            try:
                await asyncio.wait_for(self._goodbyes.wait(), FAREWELL_S)
            except asyncio.TimeoutError:
                self._display.note(f"no goodbye from {', '.join(self.lobby.clients)}")
        peaks = {**self._conductor.peaks(), **self._meter.peaks}
        await self._half.stop()
        reach("goodbyes.heard")
        try:
            with contextlib.closing(self._record):
                self._record.put_turned_away(self._turned_away.counts)
                self._record.put_undelivered(self._undelivered.counts)
                self._record.put_refusals(self._misfits.counts, self._ledger.since_start.refusals)
                self._record.finish(self._ledger, self._half.versions, peaks, code.outcome, reason)
                reach("summary.written")
        except (OSError, StoreError) as error:
            incomplete = f"the run's record is not complete: {in_words(error, self._record.folder.path)}"
            self._display.note(incomplete)
            code, reason = ExitCode.INTERRUPTED, reason if code == ExitCode.INTERRUPTED else incomplete
        self.reason = reason
        self._display.note(f"the run is over: {code.outcome}" + (f" ({reason})" if reason else ""))
        return code

    # Messages

    def _on_arrival(self, arrival: Arrival) -> None:
        now, message = self._now(), arrival.message
        client = self.lobby.take(arrival, now)
        if client is not None:
            self._meter.heard(client, message, arrival.frames)
        if client is not None and not self._ended.done():
            if isinstance(message, Update) and arrival.packed is not None:
                try:
                    self._on_update(client, message, arrival.packed, arrival.frames, arrival.timing)
                except MethodError as error:
                    self.end(ExitCode.FAILED, f"method {self._method.name}: {error}")
            else:
                self._take(client, message, now)
        self._alarm.look()

    def _on_barred(self, route: bytes, reason: str) -> None:
        self.lobby.bar(route, reason, self._now())
        self._alarm.look()

    def _take(self, client: str, message: Message, now: float) -> None:
        if isinstance(message, Progress):
            self._feed(round_events.ProgressMade(client, message.round, message.exchange, now))
        elif isinstance(message, Offer) and self._may_send(client, message.run, message.round, message.exchange):
            self._grant(self._grants.offer(client))

    def _on_update(self, client: str, update: Update, packed: Packed, frames: Frames, timing: Timing | None) -> None:
        if not self._may_send(client, update.run, update.round, update.exchange):
            return
        reach("update.received")
        if (misfit := self._conductor.misfit(client, packed, self._gate)) is not None:
            self._on_misfit(client, update, misfit)
            return
        exchange, num_train = self._conductor.exchange, self._ledger.num_train([client])
        exchange.accept(client, num_train, packed)
        if not self._ledger.was_asked(client):  # not since a restart, so it was before that
            self._ledger.task_sent(client, self._tasks.cost(client), None)
        now = self._now()
        self._ledger.update_accepted(client, self._cost(packed, frames), Report.of(update.evaluations, timing), now)
        self._record.put_update(update, client, num_train, frames, timing, lambda: self._on_durable(client, exchange))
        self._display.progress(update.round, update.exchange, len(exchange.accepted), len(self._rounds.cohort))
        reach("update.accepted")
        if not self._record.spills(packed):
            self._grant(self._grants.release(client))
        self._feed(round_events.UpdateArrived(client, update.round, update.exchange, now))

    def _on_misfit(self, client: str, update: Update, misfit: str) -> None:
        """Refuse an update; a corrected one may follow, but not for ever."""
        self._grant(self._grants.release(client))
        self._ledger.update_refused(client)
        self._feed(round_events.MisfitArrived(client, update.round, update.exchange, misfit, self._now()))
        is_left_out = bool(self._misfits.add(client))
        self._record.put_refusals(self._misfits.counts, self._ledger.since_start.refusals)
        if is_left_out:
            self.lobby.leave_out(client, self._now())
            self._feed(round_events.ClientGone(client, self._now(), for_good=True))

    def _may_send(self, client: str, run: int, round: int, exchange: int) -> bool:
        """Say whether an update of this exchange would be accepted; tell the client if not."""
        refusal = self._rounds.refusal_of(client, round, exchange)
        if run != self._token:
            refusal = round_events.Refuse(client, RefusalCode.STALE, f"this is run {self._spec.run_id}")
        elif refusal is None and client not in self.lobby.announced:
            refusal = round_events.Refuse(client, RefusalCode.NOT_OPEN, f"{client} has not said that it is ready")
        if refusal is None:
            return True
        self._refuse(refusal)
        if refusal.code == RefusalCode.DUPLICATE and self._acks.is_durable(client, round, exchange):
            self.lobby.send(client, encode(Ack(self._token, round, exchange)), self._now())
        return False

    def _on_durable(self, client: str, exchange: OpenExchange) -> None:
        reach("update.durable")
        if self._record.spills(exchange.accepted[client].packed):
            exchange.spill(client)
            if exchange is self._conductor.exchange:  # it was in memory until now
                self._grant(self._grants.release(client))
        self._acks.put(client, Ack(self._token, exchange.round, exchange.index))

    def _acknowledge(self, client: str, ack: Ack) -> None:
        if self.lobby.has(client):
            self.lobby.send(client, encode(ack), self._now())
            reach("ack.sent")

    def _refuse(self, refusal: round_events.Refuse) -> None:
        """Refuse an update; one that is early is still to come, and of one that came twice people need not hear."""
        self._ledger.since_start.refused(refusal.code)
        if refusal.code not in (RefusalCode.NOT_OPEN, RefusalCode.DUPLICATE):
            self._display.note(f"{refusal.client}: update refused ({refusal.code}): {refusal.reason}")
        message = Refusal(refusal.code, refusal.reason, False, self._token, *self._rounds.takes_from)
        self.lobby.send(refusal.client, encode(message), self._now())

    def _grant(self, clients: Iterable[str]) -> None:
        for client in clients:
            message = Grant(self._token, self._rounds.round, self._rounds.exchange)
            self.lobby.send(client, encode(message), self._now())

    def _refuse_offers(self) -> None:
        """The exchange has closed: tell those who still wait to send."""
        for client in self._grants.close():
            self._may_send(client, self._token, self._rounds.round, self._rounds.exchange)

    def _on_ready(self, client: str, ready: Ready, is_at_work: bool) -> None:
        self._ledger.announce(client, ready)
        self._record.put_ready(client, ready)
        if not is_at_work:
            self._feed(round_events.ClientReady(client, self._now()))

    def _on_gone(self, client: str) -> None:
        self._grant(self._grants.release(client))
        self._feed(round_events.ClientGone(client, self._now()))
        if self._ended.done() and not self.lobby.clients:
            self._goodbyes.set()

    def _on_constant_sent(self, client: str, message: ConstantMessage, packed: Packed, frames: Frames) -> None:
        sent = self._ledger.since_start.constant_sent(client, message.digest, self._cost(packed, frames))
        self._record.put_sent_constants(client, sent)

    # Rounds

    def _feed(self, event: round_events.Event) -> None:
        """Give the rounds an event; what takes time is queued, what does not is done now."""
        if self._ended.done():
            return
        if isinstance(event, round_events.Configured):  # fed by `_work`, whose errors end the run
            self._record.write_histogram(self._spec, self.lobby.announced)
        tasks: list[str] = []
        for instruction in self._rounds.handle(event):
            if isinstance(instruction, round_events.SendTask):
                tasks.append(instruction.client)
            elif isinstance(instruction, round_events.Refuse):
                self._refuse(instruction)
            elif not isinstance(instruction, round_events.Accept):
                self._conductor.put(instruction)
            if isinstance(instruction, round_events.Aggregate | round_events.FailRound):
                self._refuse_offers()
        self._send_tasks(tasks)
        self._alarm.look()

    def _next_due(self) -> float | None:
        wakeups = [at for at in (self._rounds.next_wakeup(), self.lobby.next_wakeup()) if at is not None]
        return None if self._ended.done() else min(wakeups, default=None)

    def _put_presence(self, presence: Presence) -> None:
        self._record.put_presence(presence)
        self._record.put_turned_away(self._turned_away.counts)

    def _on_due(self) -> None:
        self.lobby.tick(self._now())
        self._feed(round_events.Ticked(self._now()))

    def _send_tasks(self, clients: Iterable[str]) -> None:
        for client, frames, cost in self._tasks.made_for(clients):
            if self.lobby.send(client, frames, self._now()):
                self._acks.drop(client)
                self._ledger.task_sent(client, cost, self._now())
                reach("task.sent")

    def _cost(self, packed: Packed, frames: Frames) -> Cost:
        return Cost.of(packed, frames, self._config.transport.is_encrypted)

    async def _work(self) -> None:
        """Begin the server half, let clients in, then carry out what the rounds instruct."""
        try:
            self.lobby.open(await self._conductor.begin())
            self._feed(round_events.Ticked(self._now()))
            await self._conductor.work()
        except MethodError as error:
            self._display.log(traceback.format_exc())
            self.end(ExitCode.FAILED, f"method {self._method.name}: {error}")
        except (ConfigError, EncodeError) as error:  # a start that does not fit, or more than a message may hold
            maker = f"method {self._method.name}: " if isinstance(error, EncodeError) else ""
            self.end(ExitCode.BAD_CONFIG, f"{maker}{error}")

    def _finish(self, finish: round_events.Finish) -> None:
        self.end(ExitCode.FINISHED if finish.outcome == "finished" else ExitCode.FAILED, finish.reason)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """End the run if one of its tasks has failed: it would wait for that task for ever."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError | StoreError):
            self.end(ExitCode.INTERRUPTED, f"cannot write: {in_words(error, self._record.folder.path)}")
        elif error is not None:
            self._display.note("".join(traceback.format_exception(error)))
            self.end(ExitCode.FAILED, f"internal error: {named(error)}")

    def _now(self) -> float:
        return self._loop.time()
