"""The standing coordinator: takes runs from the queue, and lets each have clients that are free and meet its needs.

Theory of operation. A client that says hello is in the foyer. A run is started once `min_available_clients` are there
that are in no other run and meet its `[require]`, and gets as many of them as it has `num_clients`, those with the
smallest ids; more come in later. From then on what such a client says goes to its run, on any connection, until the run
is over, and whether it is silent the run judges, by its own heartbeat. One that is gone before it got ready there keeps
nobody out. The first run in the queue that can be started is the next: one whose clients are missing holds nobody up.

The queue is on disk before anybody hears of a change, and a run has a store of its own. So after a kill, runs that went
on are resumed and queued ones are queued, and a run's clients are those that it had. Only that a run is over is so
before it is written: where the disk is full that is tried again, as is the beginning of the next run. A run, new or
taken up, for whose record there is no room is queued until there is, and one that another process has until that lets
go of it (`held_up`); only another fault of it is its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import traceback
from pathlib import Path

from coordinator.app import end_by
from coordinator.clients.door import Arrival, Door
from coordinator.clients.foyer import Events, Foyer, Guest
from coordinator.clients.keys import Keys
from coordinator.clients.turned_away import TurnedAway
from coordinator.config import RunConfig
from coordinator.service.choice import Choice, TwinNotes, choose
from coordinator.service.clerk import Clerk
from coordinator.service.desk import Desk
from coordinator.service.elsewhere import Elsewhere
from coordinator.service.held_up import HeldUp
from coordinator.service.hosted import Hosted, Plan
from coordinator.service.place import Place
from coordinator.service.queue import Entry, Queue
from coordinator.service.reporters import Reporters
from coordinator.service.requirements import unmet
from coordinator.service.settings import ServiceConfig
from coordinator.service.spare import SpareAggregator
from coordinator.service.waiting import tell_queue
from coordinator.store.run_folder import RunFolder, run_token
from coordinator.store.schema import in_words
from coordinator.store.store import StoreError
from models.spec import ConfigError
from wire.encoding import encode
from wire.exit_codes import ExitCode
from wire.messages import Decline, Goodbye, Ping, Pong, Standby
from wire.sockets.log import say
from wire.sockets.systemd import ServiceManager
from wire.sockets.tcp import Counters

TICK_S = 0.5
"""How often the foyer looks after clients that are silent."""

CLEAR_AFTER_S = 1.0
"""So long after a run, when its timers are over, its parts go: they hold each other, and with them arrays and files."""

END_S = 10.0
"""How long runs may take to tell their clients and write their summaries when the service ends."""


class Service:
    """The daemon, from start to exit code."""

    def __init__(self, config: ServiceConfig, modules: Path, keys: Keys | None) -> None:
        """Take up what an earlier process left in the service's folder.

        Raises:
            ConfigError: another process is at work there, or what is there is no queue.
        """
        self.place = Place(config.folder)
        self.config = config.at(self.place.path)
        self._modules = modules
        self._keys = keys
        self._systemd = ServiceManager()
        self._turned_away = TurnedAway({}, say)
        self.queue = Queue(self.place.path, self.place.see)
        self.plans: dict[str, Plan] = {}
        self.hosted: dict[str, Hosted] = {}
        self.unwritten = ""
        """Why the queue is not on disk as it is here, or a run not begun; "" where all is written."""
        self.held_up = HeldUp(say)
        self._twins = TwinNotes(say)
        self._seeing: dict[str, asyncio.Task[None]] = {}
        self.reporters = Reporters(say)
        self._spare = SpareAggregator(self.place.path / "aggregator.log")
        self._elsewhere, self._clerk = Elsewhere(self), Clerk(self)
        self._desk = Desk(config.folder, self._clerk.carry_out)

    async def run(self) -> ExitCode:
        """Serve run after run until a signal comes."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        end_by(self._end, say)
        self._door = Door(
            self.config.transport,
            self._keys,
            on_arrival=self._on_arrival,
            on_barred=self._on_barred,
            turned_away=self._turned_away,
            on_ended=self._on_ended,
        )
        with contextlib.closing(self._door):
            events = Events(
                came=self._on_came, gone=self._on_gone, turned_away=self._turned_away.add, is_watched=self._is_watched
            )
            idle_s = self.config.service.idle_heartbeat_s
            self.foyer = Foyer(idle_s, self._door.send, self._door.counters, events)
            await self._desk.open()
            await self._spare.prepare()
            self._take_up()
            say(f"listening on {self._door.address}")
            self._tick()
            telling = self._loop.create_task(tell_queue(lambda: list(self.plans), self._clerk.why_queued, say))
            self._systemd.ready(self._loop)
            reason = await self._ended
            telling.cancel()
            self._systemd.stopping()
            await self._close(reason)
        say(f"the service is {reason}")
        return ExitCode.INTERRUPTED

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    async def _close(self, reason: str) -> None:
        self._desk.close()
        for hosted in self.hosted.values():
            hosted.end(reason)
        if self._seeing:
            await asyncio.wait(self._seeing.values(), timeout=END_S)
        await self._spare.stop()
        await asyncio.to_thread(self.reporters.let_finish)
        if self.unwritten:
            self._write_queue()
        self.place.leave()

    # Runs

    def put(self, plan: Plan) -> None:
        """Queue a run, and start it if that can be done at once."""
        self.queue.put(Entry(plan.folder.run_id))
        self.plans[plan.folder.run_id] = plan
        self.fill()

    def fill(self) -> None:
        """Let runs that go on have the clients that they lack, and start those whose clients are there."""
        if self._ended.done():
            return
        for hosted in self.hosted.values():
            self._bring(hosted)
        for plan in list(self.plans.values()):
            if len(self.hosted) >= self.config.service.max_concurrent_runs:
                return
            choice = self.choice_for(plan.config)
            if len(choice.free) < plan.config.min_available_clients:
                self._twins.tell(choice)
            elif not self.held_up.is_early(plan.folder.run_id, self._loop.time()):
                self._begin(plan)

    def is_busy(self, guest: Guest) -> bool:
        """Say whether a client is in a run."""
        return self._run_of(guest) is not None

    def choice_for(self, config: RunConfig, hosted: Hosted | None = None) -> Choice:
        """Return who may be brought into a run that goes on or not yet."""
        guests = self.foyer.guests
        candidates = (guest for guest in guests.values() if not (self.is_busy(guest) or unmet(config, guest.device)))
        if hosted is None:
            return choose(candidates)
        members = [guests[client] for client in hosted.clients if client in guests]
        return choose(filter(hosted.may_have, candidates), members)

    async def over(self, run_id: str) -> None:
        """Wait until a run is over, END_S at most."""
        if run_id in self._seeing:
            await asyncio.wait([self._seeing[run_id]], timeout=END_S)

    def _take_up(self) -> None:
        """Go on with the runs that went on, and plan those that are queued."""
        if unknown := self.queue.unknown_in(self.config.runs):
            told = f"run folders that are not in the queue, so that nobody goes on with them: {', '.join(unknown[-5:])}"
            say(told + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""))
        for entry in self.queue.entries:
            if entry.state == "over":
                continue
            try:
                plan = Plan.read(RunFolder.open(self.config.runs / entry.run_id), self.config)
                summary = plan.folder.read_summary()
            except (ConfigError, OSError) as error:
                self._book_unusable(entry.run_id, error)
                continue
            was_running = entry.state == "running"
            if self._elsewhere.book(plan, summary, was_running):  # or here, by a process killed before it booked that
                continue
            if was_running and len(self.hosted) < self.config.service.max_concurrent_runs:
                if (hosted := self._opened(plan)) is not None:
                    self._host(hosted)
            else:
                self.plans[entry.run_id] = plan
                if was_running:  # as more went on when the service was killed than may now
                    self.queue.hold(Entry(entry.run_id))
                    self._write_queue()

    def _begin(self, plan: Plan) -> None:
        """Start a queued run, or leave it queued where the queue cannot be written."""
        hosted = None
        try:
            self.place.see()
            if (hosted := self._opened(plan)) is not None:
                self.queue.put(Entry(hosted.run_id, "running"))
        except OSError as error:
            if hosted is not None:
                hosted.close()
            self._note_unwritten(str(error))
            return
        if hosted is not None:
            self._host(hosted)

    def _opened(self, plan: Plan) -> Hosted | None:
        """Return a run with its record opened, None if that cannot be done now or ever."""
        try:
            return Hosted(plan, self._modules, self._door, self._spare.take, self.foyer.guests)
        except (ConfigError, StoreError, OSError) as error:
            self._leave_unbegun(plan, error)
            return None

    def _host(self, hosted: Hosted) -> None:
        run_id = hosted.run_id
        self.plans.pop(run_id, None)
        self.held_up.drop(run_id)
        say(f"{run_id} {'goes on' if hosted.has_begun else 'begins'}")
        for other in self.hosted.values():
            hosted.clients -= other.clients
        self.hosted[run_id] = hosted
        self._seeing[run_id] = self._loop.create_task(self._see_through(hosted))
        self._bring(hosted)
        self._loop.call_soon(self._introduce, hosted)  # after the task's first step, which opens the run's port

    def _leave_unbegun(self, plan: Plan, error: Exception) -> None:
        """Have a run queued that is held up; one whose folder cannot be used has failed."""
        run_id = plan.folder.run_id
        if self.held_up.add(plan.folder, error, self._loop.time()):
            self.plans[run_id] = plan
            if self.queue.get(run_id) != Entry(run_id):
                self.queue.hold(Entry(run_id))
                self._write_queue()
        else:
            self._book_unusable(run_id, error)

    def _introduce(self, hosted: Hosted) -> None:
        for client in sorted(hosted.clients & self.foyer.guests.keys()):
            hosted.take_in(self.foyer.guests[client])

    def _bring(self, hosted: Hosted) -> None:
        """Let a run have the clients that it lacks, as far as they are there."""
        if hosted.num_free <= 0:
            return
        choice = self.choice_for(hosted.plan.config, hosted)
        for guest in choice.free[: hosted.num_free]:
            hosted.take_in(guest)
        if hosted.num_free > 0:
            self._twins.tell(choice)

    async def _see_through(self, hosted: Hosted) -> None:
        reason = ""
        try:
            outcome, reason = await hosted.run(), hosted.reason
        except Exception as error:  # a fault in one run is nothing to the others
            outcome, reason = "failed", f"internal error: {type(error).__name__}: {error}"
            say("".join(traceback.format_exception(error)))
        del self.hosted[hosted.run_id], self._seeing[hosted.run_id]
        if self._ended.done() and outcome == "interrupted":
            return  # the next process goes on with it
        self.book_over(hosted.run_id, outcome, reason)
        self._stand_by(hosted)
        self.fill()
        self.reporters.make(hosted.plan.folder, hosted.plan.config)
        self._loop.call_later(CLEAR_AFTER_S, gc.collect)
        await self._spare.prepare()

    def book_over(self, run_id: str, outcome: str, reason: str) -> None:
        """Have a run over in the queue, and say so."""
        self.plans.pop(run_id, None)
        self.held_up.drop(run_id)
        reason = reason if reason != outcome else ""
        say(f"{run_id} is over: {outcome}" + (f" ({reason})" if reason else ""))
        self.queue.hold(Entry(run_id, "over", outcome, reason))
        self._write_queue()

    def _book_unusable(self, run_id: str, error: Exception) -> None:
        """Have a run failed whose folder cannot be used, and say how it goes on where that may change."""
        how = "" if isinstance(error, ConfigError) else f": coordinator resume {run_id}"
        self.book_over(run_id, "failed", in_words(error, self.config.runs / run_id) + how)

    def _write_queue(self) -> None:
        """Have on disk what the queue holds, or try again at the next tick."""
        try:
            self.queue.write()
        except OSError as error:
            self._note_unwritten(str(error))
        else:
            self.unwritten = ""

    def _note_unwritten(self, told: str) -> None:
        if not self.unwritten:
            say(f"{told}; it is tried again")
        self.unwritten = told

    def _try_again(self) -> None:
        """Write what could not be written, and begin what could not be begun."""
        self._write_queue()
        if not self.unwritten:
            say("the queue is written again")
            self.fill()

    def _stand_by(self, hosted: Hosted) -> None:
        """Tell those who may not have heard of the end of their run; who is there no more is lost by that."""
        for client in hosted.clients & self.foyer.guests.keys():
            self._tell_standby(self.foyer.guests[client], "")

    # Clients

    def _on_arrival(self, arrival: Arrival) -> None:
        guest = self.foyer.take(arrival, self._loop.time())
        if guest is None:
            return
        hosted, message = self._run_of(guest), arrival.message
        if isinstance(message, Decline):
            if hosted is not None and message.run == run_token(hosted.run_id):
                hosted.let_go(guest, message.reason)
                self.fill()
                if hosted.is_deserted:
                    hosted.fail(f"nobody is left to take part: {hosted.told_of_declined}")
        elif hosted is not None:
            hosted.hear(arrival)
        elif isinstance(message, Ping):
            self._door.send(arrival.route, encode(Pong()))
        if isinstance(message, Goodbye) and not (guest.stays and hosted is not None and hosted.is_over):
            self.foyer.leave(arrival.route, message.reason, self._loop.time())

    def _on_barred(self, route: bytes, reason: str) -> None:
        self.foyer.bar(route, reason, self._loop.time())

    def _on_ended(self, route: bytes, counters: Counters | None) -> None:
        """Take note that a connection is no more; a run that goes on waits, as its client may come back."""
        for hosted in self.hosted.values():
            hosted.end_of(route, counters)
        guest = self.foyer.guest_at(route)
        if guest is None:
            return
        run = self._run_of(guest)
        if run.is_over if run is not None else guest.stays:
            self.foyer.bar(route, "its connection is gone", self._loop.time())

    def _on_came(self, guest: Guest) -> None:
        hosted = self._run_of(guest)
        if not self._tell_standby(guest, hosted.run_id if hosted is not None else ""):
            return
        if hosted is not None:
            hosted.hear(guest.arrival)
        else:
            say(f"{guest.client} is here")
            self.fill()

    def _on_gone(self, guest: Guest, reason: str) -> None:
        hosted = self._run_of(guest)
        if hosted is not None:
            hosted.miss(guest, reason)
            self.fill()
        else:
            say(f"{guest.client} is gone: {reason}")

    def _tell_standby(self, guest: Guest, run_id: str) -> bool:
        """Tell a client that stays which run it is in; False if it cannot be reached, and so is gone."""
        told = encode(Standby(self.config.service.idle_heartbeat_s, run_id))
        return not guest.stays or self.foyer.send(guest.client, told, self._loop.time())

    def _is_watched(self, client: str) -> bool:
        """Say whether a run has a client, which then hears by its own heartbeat when that one is silent."""
        return any(hosted.has(client) for hosted in self.hosted.values())

    def _run_of(self, guest: Guest) -> Hosted | None:
        return next((hosted for hosted in self.hosted.values() if guest.client in hosted.clients), None)

    def _tick(self) -> None:
        self._loop.call_later(TICK_S, self._tick)
        self.foyer.tick(self._loop.time())
        for hosted in self.hosted.values():
            hosted.see_folder()
            hosted.tell_of_space(say)
        self.reporters.clear()
        if self.unwritten:
            self._try_again()
        self._elsewhere.look(self._loop.time())
