"""The client daemon: moves messages between the coordinator and its trainer, as `session` decides.

It holds no tensors and never imports torch: what the trainer made is passed on as the frames that came.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from edge_client import commands
from edge_client import session_events as session
from edge_client.announcement import announcement
from edge_client.config import ClientConfig
from edge_client.connection import Connection
from edge_client.device import profile
from edge_client.keys import Keys
from edge_client.leftovers import prune_constants
from edge_client.limits import limit, told_of_lack
from edge_client.local_state import Acquaintance, client_folder, held_digests, lock_folder
from edge_client.meter import Meter
from edge_client.schedule import Schedule
from edge_client.sensors import find_sensors, told_of
from edge_client.sensors.energy import EnergyMeter
from edge_client.session import Session
from models.failpoints import reach
from models.spec import ConfigError
from wire.encoding import Frames, decode, encode, encoded_bytes
from wire.errors import DecodeError
from wire.exit_codes import ExitCode
from wire.framing import framed_bytes, parted
from wire.limits import MAX_MESSAGE_BYTES, PIPE_BYTES, shortened
from wire.messages import Goodbye, Hello, Message, Ping, Progress, Ready, Standby, Update, Welcome
from wire.sockets.child import Child, thread_environment
from wire.sockets.endpoint import Context, Parts
from wire.sockets.log import say
from wire.sockets.pipe import end_with_parent
from wire.sockets.signals import ending, run_daemon
from wire.sockets.systemd import ServiceManager
from wire.sockets.zeromq import LinkEnd
from wire.version import PROTOCOL_VERSION

OUTPUT_LOG = "trainer.log"


class ClientApp:
    """One client daemon, from start to exit code."""

    def __init__(self, config: ClientConfig, config_folder: Path, keys: Keys | None, once: bool) -> None:
        self._config = config
        self._config_folder = config_folder
        self._keys = keys
        self._folder = client_folder(config)
        self._incarnation = int.from_bytes(os.urandom(7), "big")
        self._acquaintance = Acquaintance(self._folder, keys[1] if keys else "")
        self._session = Session(self._incarnation, once, self._acquaintance.was_let_in)
        self._systemd = ServiceManager()
        self._context = Context(io_threads=1)
        self._connection: Connection | None = None
        self._trainer: Child | None = None
        found = find_sensors()
        self._device = announcement(config, {**profile(), **told_of(found)})
        energy = EnergyMeter(found.sensors, lambda told: say(f"{config.client.id}: {told}"))
        self._meter = Meter(lambda: self._trainer.pid if self._trainer else None, energy)
        self._schedule = Schedule(config.schedule, self._permit)
        self._handling: set[asyncio.Task[None]] = set()
        self._welcome: Welcome | None = None
        self._told_held: list[str] = []  # run constants that the last hello listed
        self._incoming: Frames = []
        self._constants: list[Frames] = []  # for a trainer that has yet to put them on its shelf
        self._task_frames: Frames | None = None
        self._uplink: Frames | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._obedience: dict[type[Any], Callable[[Any], None]] = {
            session.OpenLink: self._open_link,
            session.CloseLink: self._close_link,
            session.Send: lambda send: self._send(send.message),
            session.SendUplink: self._send_uplink,
            session.DropUplink: self._drop_uplink,
            session.Prepare: self._prepare,
            session.PassConstant: self._pass_constant,
            session.StartTask: self._start_task,
            session.RestartTrainer: self._restart_trainer,
            session.HaltTrainer: self._halt_trainer,
            session.EndTrainer: self._end_trainer,
            session.Exit: lambda end: self._end(end.code, end.reason),
            session.Say: lambda told: say(f"{self._config.client.id}: {told.text}"),
        }

    async def run(self, lifeline: int | None) -> ExitCode:
        """Serve until the session ends, a signal comes, or the other end of the lifeline closes."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[tuple[ExitCode, str]] = self._loop.create_future()
        for number in ending():
            self._loop.add_signal_handler(number, self._end, ExitCode.INTERRUPTED, f"stopped by {number.name}")
        self._loop.add_signal_handler(signal.SIGUSR1, self._schedule.pause, True)
        self._loop.add_signal_handler(signal.SIGUSR2, self._schedule.pause, False)
        if lifeline is not None:
            end_with_parent()
            self._loop.add_reader(lifeline, self._end, ExitCode.INTERRUPTED, "its parent is gone")
        self._systemd.ready(self._loop)
        self._feed(session.Ticked(self._loop.time()))
        schedule = self._loop.create_task(self._schedule.watch())
        self._watch(schedule)
        code, reason = await self._ended
        schedule.cancel()
        if lifeline is not None:
            self._loop.remove_reader(lifeline)
        await self._leave(reason)
        say(f"{self._config.client.id}: {reason}")
        return code

    async def _leave(self, reason: str) -> None:
        self._systemd.stopping()
        if self._timer is not None:
            self._timer.cancel()
        self._send(Goodbye(reason))
        self._close_link(session.CloseLink())
        for task in list(self._handling):
            await asyncio.wait([task], timeout=1.0)
        if self._trainer is not None:
            await self._trainer.stop()
        self._context.destroy(linger=500)

    def _permit(self, waits_for: str) -> None:
        self._feed(session.Permitted(waits_for, self._loop.time()))

    def _end(self, code: ExitCode, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result((code, reason))

    def _feed(self, event: session.Event) -> None:
        """Give the session an event, carry out what follows, and set the next wake-up."""
        if self._ended.done():
            return
        for instruction in self._session.handle(event):
            self._obey(instruction)
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer if it would come too late; one that comes too early does no harm, and most move on."""
        wakeup = self._session.next_wakeup()
        if wakeup is None or (self._timer is not None and self._timer.when() <= wakeup):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(wakeup, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        quiet_s = self._connection.quiet_s() if self._connection is not None else None
        if quiet_s is not None:
            self._feed(session.Moved(now - quiet_s))
        self._feed(session.Ticked(now))

    def _obey(self, instruction: session.Instruction) -> None:
        self._obedience[type(instruction)](instruction)

    def _open_link(self, instruction: session.OpenLink) -> None:
        self._close_link(session.CloseLink())
        address = self._config.coordinator.address
        self._connection = Connection(self._context, address, self._keys, self._on_message, self._on_lost)
        self._meter.linked(self._connection.dealer)
        version = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
        if self._trainer is None:
            prune_constants(self._folder, self._config.client, time.time())
        self._told_held = held_digests(self._folder)
        self._send(Hello(version, self._config.client.id, self._incarnation, self._told_held, self._device))

    def _on_lost(self, reason: str, end: LinkEnd) -> None:
        told, now = f"the coordinator at {self._config.coordinator.address}: {reason}", self._loop.time()
        if end is LinkEnd.REFUSED:
            self._feed(session.LinkRefused(f"refused by {told}", now))
        else:
            self._feed(session.LinkLost(f"no connection to {told}", now, end is LinkEnd.BROKEN_OFF))

    def _close_link(self, instruction: session.CloseLink) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _on_message(self, parts: Parts) -> None:
        try:
            frames = parted(parts, MAX_MESSAGE_BYTES)
            message, _ = decode(frames, max_bytes=MAX_MESSAGE_BYTES)
        except DecodeError as error:
            say(f"{self._config.client.id}: ignored a message from the coordinator: {error}")
            return
        self._incoming = frames
        reach("message.received")
        self._feed(session.Received(message, self._loop.time()))
        self._incoming = []
        if isinstance(message, Welcome) or (isinstance(message, Standby) and not message.run_id):
            self._meter.answered()
        if isinstance(message, Welcome | Standby):
            self._acquaintance.let_in()

    def _send(self, message: Message) -> None:
        if isinstance(message, Ping):
            message = Ping(*self._meter.peaks_bytes(), message.waits_for, self._meter.vitals())
        elif isinstance(message, Goodbye):
            message = Goodbye(shortened(message.reason, 200), *self._meter.peaks_bytes(), self._meter.vitals())
        if self._connection is not None:
            self._connection.send(encode(message), may_lapse=isinstance(message, Ping | Progress))

    def _send_uplink(self, instruction: session.SendUplink) -> None:
        if self._connection is not None and self._uplink is not None:
            reach("uplink.sending")
            self._connection.send(self._meter.told(self._uplink, self._loop.time()))
            reach("uplink.sent")

    def _drop_uplink(self, instruction: session.DropUplink) -> None:
        self._uplink = None

    def _prepare(self, instruction: session.Prepare) -> None:
        self._meter.joined(framed_bytes(self._incoming, self._keys is not None))
        self._welcome = instruction.welcome
        self._task_frames = None
        self._constants = []
        self._start_trainer()

    def _restart_trainer(self, instruction: session.RestartTrainer) -> None:
        trainer = self._start_trainer()
        for constant in self._constants:
            trainer.send(constant)
        if self._task_frames is not None:
            trainer.send(self._task_frames)

    def _halt_trainer(self, instruction: session.HaltTrainer) -> None:
        if self._trainer is not None:
            self._trainer.halt(instruction.is_halted)

    def _end_trainer(self, instruction: session.EndTrainer) -> None:
        trainer, self._trainer = self._trainer, None
        self._constants, self._task_frames = [], None
        self._meter.stop()
        if trainer is not None:
            self._watch(self._loop.create_task(trainer.stop()))

    def _pass_constant(self, instruction: session.PassConstant) -> None:
        self._constants.append(self._incoming)
        if self._trainer is not None:
            self._trainer.send(self._incoming)

    def _start_task(self, instruction: session.StartTask) -> None:
        now, self._task_frames = self._loop.time(), self._incoming
        if self._trainer is not None:
            self._trainer.send(self._incoming)
        self._meter.task_came(instruction.task.round, instruction.task.exchange, now)

    def _start_trainer(self) -> Child:
        """Start a trainer for the welcome at hand; an older one is stopped first, and what it still says is void."""
        assert self._welcome is not None
        older, welcome = self._trainer, self._welcome

        def on_message(frames: Frames) -> None:
            if trainer is self._trainer:
                self._on_made(frames)

        def on_gone(how: str) -> None:
            if trainer is self._trainer:
                self._on_trainer_gone(how)

        trainer = Child(on_message, on_gone, self._folder / OUTPUT_LOG)
        self._trainer = trainer
        trainer.halt(self._session.is_halted)
        settings = msgspec.to_builtins(self._config)
        folder, limit_bytes, names = str(self._config_folder), welcome.max_message_bytes, welcome.names
        begin = commands.Begin(welcome.run, welcome.spec, welcome.constants, limit_bytes, settings, folder, names)
        trainer.send(encode(begin))
        self._watch(self._loop.create_task(self._start(older, trainer)))
        return trainer

    def _on_trainer_gone(self, how: str) -> None:
        """Have a trainer that died started again, unless another one would lack the memory as well."""
        now, memory_mib = self._loop.time(), self._config.limits.memory_mib
        if lack := told_of_lack(how, memory_mib):
            self._feed(session.TrainerFailed(lack, ExitCode.FAILED, now))
        else:
            under = f" (under [limits] memory_mib = {memory_mib})" if memory_mib else ""
            self._feed(session.TrainerDied(f"{how}{under}", now))

    def _watch(self, task: asyncio.Task[None]) -> None:
        """Keep a task until it is done."""
        self._handling.add(task)
        task.add_done_callback(self._on_handled)

    def _on_handled(self, task: asyncio.Task[None]) -> None:
        """End the client if its trainer could not be started or stopped: it would wait for it for ever."""
        self._handling.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(ExitCode.FAILED, f"the trainer or a hook cannot be started or stopped: {error}")

    async def _start(self, older: Child | None, trainer: Child) -> None:
        if older is not None:
            await older.stop()
        assert self._welcome is not None
        wanted = self._config.training.threads or int(self._welcome.spec.get("training", {}).get("threads", 1))
        await trainer.start("edge_client.trainer", (), thread_environment(wanted))
        if trainer.pid is not None:
            limit(trainer.pid, self._config.limits)

    def _on_made(self, frames: Frames) -> None:
        """Take what the trainer says."""
        message, _ = decode(frames[:2], commands.COMMANDS, PIPE_BYTES)  # an update has its timing behind it
        now = self._loop.time()
        if isinstance(message, Update):
            self._uplink = frames
            self._meter.uplink_made(message.round, message.exchange, now)
            reach("uplink.taken")
            self._feed(session.UplinkMade(message.round, message.exchange, encoded_bytes(frames), now))
        elif isinstance(message, Progress):
            self._feed(session.Progressed(message, now))
        elif isinstance(message, Ready):
            self._meter.loaded()
            self._constants = []
            self._feed(session.Prepared(message, now))
        elif isinstance(message, commands.Note):
            say(f"{self._config.client.id}: {message.text}")
        elif isinstance(message, commands.Waits):
            self._feed(session.Held(message.waits_for, now))
        elif isinstance(message, commands.Lacks) and not set(self._told_held).isdisjoint(message.digests):
            self._feed(session.LinkLost("run constants are gone that this client said to hold, so it says anew", now))
        elif isinstance(message, commands.Failed):
            self._feed(session.TrainerFailed(message.reason, ExitCode(message.code), now))


def run(config: ClientConfig, config_folder: Path, keys: Keys | None, once: bool, lifeline: int | None) -> ExitCode:
    """Run the client daemon and return its exit code.

    Raises:
        ConfigError: its folder cannot be written to, or another client works there.
    """
    folder = client_folder(config)
    try:
        os.close(lock_folder(folder))
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise ConfigError(f"[client] dir: expected a folder to write to, {folder} is none: {told}") from error
    return run_daemon(ClientApp(config, config_folder, keys, once).run(lifeline))
