"""The clerk: carries out the orders that come in at the desk."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from coordinator.config import RunConfig, read
from coordinator.service.hosted import Hosted, Plan
from coordinator.service.orders import Cancel, Done, ListRuns, Resume, Runs, RunState, Stop, Submit
from coordinator.service.queue import MOST_RUNS, Entry
from coordinator.service.requirements import count_unmet, unmet
from coordinator.store.holder import last_holder
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import refused
from coordinator.whereabouts import whereabouts
from models.data import dataset_classes
from models.spec import ConfigError, read_section
from wire.messages import Message

if TYPE_CHECKING:
    from coordinator.service.daemon import Service


class Clerk:
    """Speaks for people with one service; what it refuses is a `ConfigError`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._duties: dict[type[Any], Callable[[Any], Awaitable[Message]]] = {
            Submit: self._submit,
            ListRuns: self._list,
            Stop: self._stop,
            Resume: self._resume,
            Cancel: self._cancel,
        }

    async def carry_out(self, order: Message) -> Message:
        """Carry out an order and return the answer.

        Raises:
            ConfigError: it cannot be carried out.
        """
        return await self._duties[type(order)](order)

    async def _submit(self, order: Submit) -> Done:
        config = self._service.config.over(read(order.tables, order.settings, order.where), order.where)
        classes = await asyncio.to_thread(dataset_classes, config.data)
        spec = config.spec("", classes)
        folder = self._new_folder(config)
        try:
            self._service.put(Plan(folder, config, msgspec.structs.replace(spec, run_id=folder.run_id)))
        except OSError:
            folder.discard()
            raise
        return Done(folder.run_id, "queued")

    def _new_folder(self, config: RunConfig) -> RunFolder:
        try:
            self._service.place.see()  # so that no folder is made where the service's was moved from
            return RunFolder.create(config, time.strftime("%Y%m%d-%H%M%S"))
        except (ConfigError, OSError) as error:
            raise refused(f"{error}; nothing is queued", error) from None

    async def _list(self, order: ListRuns) -> Runs:
        entries = [self._entry(order.run_id)] if order.run_id else self._service.queue.entries[-MOST_RUNS:]
        return Runs([self._state(entry) for entry in entries])

    async def _stop(self, order: Stop) -> Done:
        return await self._end(order.run_id, "stopped", "")

    async def _cancel(self, order: Cancel) -> Done:
        if self._entry(order.run_id).state != "queued":
            return await self._end(order.run_id, "cancelled", "cancelled")
        self._service.queue.put(Entry(order.run_id, "over", "cancelled"))
        del self._service.plans[order.run_id]
        self._service.held_up.drop(order.run_id)
        return Done(order.run_id, "cancelled")

    async def _end(self, run_id: str, reason: str, outcome: str) -> Done:
        entry, hosted = self._entry(run_id), self._service.hosted.get(run_id)
        if hosted is None:
            now = self._now(entry)
            advice = f"; `coordinator cancel {run_id}` takes it out of the queue" if now.state == "queued" else ""
            is_what = f"over ({now.outcome})" if now.state == "over" else _in_words(now)
            raise ConfigError(f"{run_id}: expected a run that goes on, got one that is {is_what}{advice}")
        hosted.end(reason, outcome)
        await self._service.over(run_id)
        return Done(run_id, self._entry(run_id).outcome)

    async def _resume(self, order: Resume) -> Done:
        self._see_may_resume(order.run_id)
        plan = await asyncio.to_thread(Plan.read, self._folder(order.run_id), self._service.config)
        self._see_may_resume(order.run_id)  # also after another order that came meanwhile
        self._service.put(plan)
        return Done(order.run_id, "queued")

    def _see_may_resume(self, run_id: str) -> None:
        self._service.place.see()
        now = self._now(self._entry(run_id))
        if now.state != "over" or now.outcome == "finished":
            is_what = "finished" if now.outcome == "finished" else _in_words(now)
            raise ConfigError(
                f"{run_id}: expected a run that was stopped, cancelled or has failed, got one that is {is_what}"
            )

    def _entry(self, run_id: str) -> Entry:
        return self._service.queue.find(run_id)

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder.open(self._service.config.runs / run_id)

    def _now(self, entry: Entry) -> Entry:
        """Return where a run stands: with one that is over here another process may go on, or have gone on."""
        if entry.state != "over" or entry.outcome == "finished":
            return entry
        folder = RunFolder(self._service.config.runs / entry.run_id)
        last = last_holder(folder.store_path)
        if last is not None and last.pid == os.getpid():  # no other has had it since
            return entry
        try:
            found = whereabouts(folder, self._service.queue)
        except ConfigError:
            return entry
        if not found.outcome and found.process is not None:
            told = f"process {found.process.pid} goes on with it, not this service; `coordinator stop` ends that"
            return Entry(entry.run_id, "running", reason=told)
        return Entry(entry.run_id, "over", found.outcome, found.reason)

    def _state(self, entry: Entry) -> RunState:
        entry = self._now(entry)
        folder = RunFolder(self._service.config.runs / entry.run_id)
        config, fault = _read(folder)
        round, clients, told = None, [], [entry.reason]
        hosted, plan = self._service.hosted.get(entry.run_id), self._service.plans.get(entry.run_id)
        if plan is not None:
            config, told = plan.config, [self.why_queued(entry.run_id)]
        elif hosted is not None:
            config, clients = hosted.plan.config, sorted(hosted.clients)
            round, waits_for = hosted.where
            told = [waits_for, hosted.told_of_declined, *self._twins_of(hosted)]
        method, num_rounds = (config.method_name, config.run.num_rounds) if config is not None else ("", 0)
        return RunState(
            entry.run_id, str(folder.path.resolve()), method, entry.state, entry.outcome,
            round, num_rounds, clients, "; ".join(filter(None, (*told, fault))),
        )  # fmt: skip

    def _twins_of(self, hosted: Hosted) -> list[str]:
        """Say who is not let in as another has its part of the data, where the run could have more clients."""
        return self._service.choice_for(hosted.plan.config, hosted).twins if hosted.num_free > 0 else []

    def why_queued(self, run_id: str) -> str:
        """Say what a run of the queue waits for, and which requirement fails on how many clients."""
        if self._service.held_up.is_elsewhere(run_id):
            return self._service.held_up.why(run_id)
        config = self._service.plans[run_id].config
        guests, most = self._service.foyer.guests, self._service.config.service.max_concurrent_runs
        if len(self._service.hosted) >= most:
            going_on = ", ".join(map(_told_of, self._service.hosted.values()))
            return f"waiting for another run to end (max_concurrent_runs = {most}): {going_on}"
        choice = self._service.choice_for(config)
        if len(choice.free) >= config.min_available_clients and (why := self._service.held_up.why(run_id)):
            return why
        if self._service.unwritten:
            return f"waiting until its beginning can be written: {self._service.unwritten}"
        fails = count_unmet(config, (guest.device for guest in guests.values()))
        num_busy = sum(self._service.is_busy(guest) and not unmet(config, guest.device) for guest in guests.values())
        reasons = [f"{num_busy} in other runs"] if num_busy else []
        reasons += choice.twins
        reasons += [f"{count} without {fault}" for fault, count in sorted(fails.items())]
        here = f"waiting for clients {len(choice.free)}/{config.min_available_clients}, {len(guests)} are here"
        return here + (f": {'; '.join(reasons)}" if reasons else "")


def _told_of(hosted: Hosted) -> str:
    """Name a run that goes on, and say what it waits for."""
    round, waits_for = hosted.where
    return f"{hosted.run_id} is in round {round}" + (f" ({waits_for})" if waits_for else "")


def _in_words(entry: Entry) -> str:
    return f"{entry.state}: {entry.reason}" if entry.reason else entry.state


def _read(folder: RunFolder) -> tuple[RunConfig | None, str]:
    """Return a run's settings, and what is wrong with its folder, if anything is."""
    try:
        return read_section(RunConfig, folder.read_tables(), str(folder.config_path)), ""
    except ConfigError as error:
        return None, str(error)
