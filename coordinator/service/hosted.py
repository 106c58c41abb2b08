"""A run of a standing coordinator: a `Coordinator` like any other, and the part of the door that its clients use."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coordinator.aggregator.server_half import Spare
from coordinator.clients.door import Arrival, OnArrival, OnBarred, OnEnded, Port
from coordinator.clients.foyer import Guest
from coordinator.clients.turned_away import TurnedAway
from coordinator.config import RunConfig
from coordinator.daemon import Coordinator
from coordinator.display import Display
from coordinator.service.settings import ServiceConfig
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import StoreError, in_words, lock_mark
from models.data import dataset_classes
from models.settings import source_of
from models.spec import RunSpec
from wire.encoding import Frames
from wire.exit_codes import ExitCode
from wire.messages import Goodbye
from wire.sockets.systemd import ServiceManager
from wire.sockets.tcp import Counters

MOST_NAMED = 5
"""More clients that declined for one reason are told as a number."""


@dataclass(frozen=True)
class Plan:
    """A run that can be started: its folder, its settings, and what clients are told of it."""

    folder: RunFolder
    config: RunConfig
    spec: RunSpec

    @classmethod
    def read(cls, folder: RunFolder, service: ServiceConfig) -> Plan:
        """Return what the folder of a submitted run holds, with what the service says now.

        Raises:
            ConfigError: it cannot be read, or its settings are none any more.
        """
        config = service.over(folder.read_config(), source_of(folder.config_path, ()))
        return cls(folder, config, config.spec(folder.run_id, dataset_classes(config.data)))


class Passage:
    """A run's part of a door: sends by it, and hears what it is handed."""

    def __init__(self, door: Port) -> None:
        """Begin closed."""
        self._door = door
        self._on_arrival: OnArrival | None = None
        self._on_barred: OnBarred | None = None
        self._on_ended: OnEnded | None = None
        self._before: dict[bytes, Counters] = {}

    def open(self, on_arrival: OnArrival, on_barred: OnBarred, turned_away: TurnedAway, on_ended: OnEnded) -> Port:
        """Hand on to these what comes, until it is closed again; what the door turns away is the door's affair."""
        self._on_arrival, self._on_barred, self._on_ended = on_arrival, on_barred, on_ended
        return self

    @property
    def is_open(self) -> bool:
        """Whether somebody hears."""
        return self._on_arrival is not None

    @property
    def address(self) -> str:
        """That of the door."""
        return self._door.address

    def hear(self, arrival: Arrival) -> None:
        """Hand on what came."""
        if self._on_arrival is not None:
            self._on_arrival(arrival)

    def bar(self, route: bytes, reason: str) -> None:
        """Hand on that a connection may speak no more."""
        if self._on_barred is not None:
            self._on_barred(route, reason)

    def count_from_now(self, route: bytes) -> None:
        """Leave out what a connection has come to so far, in other runs and between them."""
        counters = self._door.counters(route)
        if counters is not None:
            self._before.setdefault(route, counters)

    def ended(self, route: bytes, counters: Counters | None) -> None:
        """Hand on that a connection is no more, and what it came to in this run."""
        if self._on_ended is not None:
            self._on_ended(route, self._since(route, counters))

    def counters(self, route: bytes) -> Counters | None:
        """Return what a connection has come to in this run."""
        return self._since(route, self._door.counters(route))

    def _since(self, route: bytes, counters: Counters | None) -> Counters | None:
        before = self._before.get(route)
        if counters is None or before is None:
            return counters
        return counters._replace(
            sent_bytes=counters.sent_bytes - before.sent_bytes,
            received_bytes=counters.received_bytes - before.received_bytes,
            num_retransmits=counters.num_retransmits - before.num_retransmits,
        )

    def send(self, route: bytes, frames: Frames) -> bool:
        """Send by the door."""
        return self._door.send(route, frames)

    def close(self) -> None:
        """Hand on nothing more; the door stays open for others."""
        self._on_arrival = self._on_barred = self._on_ended = None


class Hosted:
    """One run that goes on, and the clients that are in it, here or not."""

    def __init__(self, plan: Plan, modules: Path, door: Port, spare: Spare, here: Collection[str]) -> None:
        """Open its record, new or not, which tells no more how an earlier time of it ended.

        `here` is who is connected to the service, at any time.

        Raises:
            ConfigError, StoreError, OSError: that cannot be done.
        """
        self.plan = plan
        self._here = here
        self.clients: set[str] = set()
        self.reason = ""
        """Why it is over, once it is."""
        self._declined: dict[str, tuple[int, str]] = {}
        self._outcome = ""
        self._is_short = False
        self._passage = Passage(door)
        with contextlib.ExitStack() as opened:
            nowhere = opened.enter_context(open(os.devnull, "w", encoding="utf-8"))
            self._display = Display(nowhere, interactive=False, log_path=plan.folder.log_path)
            opened.callback(self._display.close)
            self._record = RunRecord(plan.folder, plan.config, "serve", modules, self._display, None)
            opened.callback(self._record.close)
            self._record.forget_end()
            self.clients.update(self._record.standing.announced)
            self._opened = opened.pop_all()
        self._mark = lock_mark(plan.folder.store_path)
        silent = ServiceManager({})  # the service speaks for this process
        self._coordinator = Coordinator(
            plan.config, plan.spec, modules, self._record, self._passage.open, silent, spare
        )

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.plan.folder.run_id

    @property
    def has_begun(self) -> bool:
        """Whether the run goes on from what an earlier time of it has stored."""
        return self._record.standing.constants is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in it but that its clients are told."""
        return self._passage.is_open and self._coordinator.is_over

    @property
    def num_free(self) -> int:
        """How many clients more may be in it."""
        return 0 if self.is_over else self.plan.config.data.num_clients - len(self.clients - self._lost)

    @property
    def _lost(self) -> set[str]:
        """Its clients that are gone and were never ready: they may come back, and keep nobody out."""
        return self.clients - self._coordinator.lobby.announced.keys() - set(self._here)

    @property
    def is_deserted(self) -> bool:
        """Whether nobody is in it, and so many have declined it as it needs to begin."""
        return not self.clients and len(self._declined) >= self.plan.config.min_available_clients

    @property
    def told_of_declined(self) -> str:
        """Who declined it and why, in words."""
        by_reason: dict[str, list[str]] = {}
        for client, (_, why) in sorted(self._declined.items()):
            by_reason.setdefault(why, []).append(client)
        return "; ".join(f"declined by {_named(clients)}: {why}" for why, clients in by_reason.items())

    @property
    def where(self) -> tuple[int, str]:
        """The round in hand, and what it waits for."""
        return self._coordinator.where

    def tell_of_space(self, tell: Callable[[str], None]) -> None:
        """Tell once when the run waits for space, and when it does so no more."""
        was_short, self._is_short = self._is_short, self._record.waits_for_space()
        if self._is_short != was_short:
            told = "waits for space on the disk" if self._is_short else "has space on the disk again, and goes on"
            tell(f"{self.run_id} {told}")

    async def run(self) -> str:
        """See the run to its end and return its outcome."""
        try:
            with self._opened:
                code = await self._coordinator.run(None)
        except (OSError, StoreError) as error:
            code = ExitCode.INTERRUPTED
            self.reason = f"its record cannot be written: {in_words(error, self.plan.folder.path)}"
        self.reason = self._coordinator.reason or self.reason
        if code == ExitCode.INTERRUPTED and not self._outcome:
            self.reason = self._told_of_folder() or self.reason  # that nothing can be written there follows from it
        return self._outcome or code.outcome

    def close(self) -> None:
        """Let go of one that does not begin now."""
        with contextlib.suppress(OSError, StoreError):  # nothing has happened in it
            self._opened.close()

    def end(self, reason: str, outcome: str = "") -> None:
        """End it early, with an outcome of its own or, if it is to be resumed, with none."""
        if not self.is_over:
            self._outcome = outcome
            asyncio.get_running_loop().call_soon(self._coordinator.end, ExitCode.INTERRUPTED, reason)

    def fail(self, reason: str) -> None:
        """End it early, as one that cannot go on."""
        if not self.is_over:
            asyncio.get_running_loop().call_soon(self._coordinator.end, ExitCode.FAILED, reason)

    def see_folder(self) -> None:
        """End it if its folder is not there any more: what it stores would be lost."""
        if told := self._told_of_folder():
            self.end(told)

    def _told_of_folder(self) -> str:
        """Say that its folder is not there any more, and what to do about it; nothing while it is there."""
        folder = self.plan.folder
        with contextlib.suppress(OSError):  # a file system that does not answer says nothing of the folder
            if lock_mark(folder.store_path) != self._mark:
                return f"its folder was moved or removed: expected {folder.path}; put it back to go on with it"
        return ""

    def take_in(self, guest: Guest) -> None:
        """Let a client that was in no run have a part in this one."""
        self.clients -= self._lost
        self.clients.add(guest.client)
        if self._passage.is_open:
            self._passage.count_from_now(guest.route)
            self._passage.hear(guest.arrival)

    def hear(self, arrival: Arrival) -> None:
        """Take what one of its clients says, be it hello on a new connection."""
        self._passage.hear(arrival)

    def end_of(self, route: bytes, counters: Counters | None) -> None:
        """Take note of what the connection of one of its clients came to."""
        self._passage.ended(route, counters)

    def has(self, client: str) -> bool:
        """Say whether a client is connected to it: it hears when that one is silent."""
        return self._coordinator.lobby.has(client)

    def miss(self, guest: Guest, reason: str) -> None:
        """Take note that a client's connection is no more."""
        self._passage.bar(guest.route, reason)

    def let_go(self, guest: Guest, reason: str) -> None:
        """Take note that a client declined, for as long as its process lives."""
        other = next((client for client, (_, why) in self._declined.items() if why == reason), "")
        self._display.note(f"{guest.client} declined: {f'as {other} did' if other else reason}")
        self.clients.discard(guest.client)
        self._declined[guest.client] = (guest.hello.incarnation, reason)
        self._passage.hear(msgspec.structs.replace(guest.arrival, message=Goodbye("it declined")))

    def may_have(self, guest: Guest) -> bool:
        """Say whether a client has not declined."""
        return self._declined.get(guest.client, (None, ""))[0] != guest.hello.incarnation


def _named(clients: Sequence[str]) -> str:
    return ", ".join(clients) if len(clients) <= MOST_NAMED else f"{len(clients)} clients"
