"""One client's session with its coordinator, as a pure state machine: events in, instructions out.

Theory of operation
-------------------
Two things go on side by side. The link to the coordinator:

    DOWN      no connection; `LinkClock` says when the next attempt is due
    JOINING   connected or connecting, hello sent; nothing moves for JOIN_S, or no welcome within MAX_JOIN_S: DOWN
    UP        welcome received; silent for SILENT_HEARTBEATS heartbeats: DOWN

and the work for the run that the welcome named:

    NONE       no run
    PREPARING  the trainer loads data and model
    IDLE       ready, no task
    WORKING    the trainer has a task; it stands still while there is something to wait for (`Permitted`)
    HOLDING    the uplink of the last task is here and not yet acknowledged or refused

Losing the link does not touch the work: the trainer trains on, and what it made is sent after the next welcome, again
and again until the coordinator acknowledges or refuses it, but once on one link: it can be lost only with that. It goes
out ahead of `Ready`, so that a coordinator that has it need not send its task; but behind it where the trainer has
announced other samples with the task at hand, as an uplink is measured by what was announced. If it came before its
exchange was open, it goes out once more when its task comes. A task that comes while another is worked on replaces it;
the same task again changes nothing else. A welcome to another run drops all work. A permanent refusal ends the client,
and so does a link that the coordinator will not have. One that has another key than the expected one cannot even say
so: it breaks off the handshake, which ends a client that was never let in if it happens MAX_BROKEN_OFF times in a row;
for one that was, that is the network. A trainer that cannot go on ends the client, too.

A coordinator that says `Standby` serves run after run. Its link stays UP without a run, at the end of one and where the
client cannot take part in one: that is declined, and the client waits for the next.

With `once` the client ends with its first run, also where it cannot take part in that. If it was away when that ended,
and is told of another run now, it ends without knowing how.

What the client waits for, such as a window of its schedule, keeps the trainer from a task and nothing else: the link
stays, every ping says so, and a task that comes is taken. A trainer that waits (`Held`) is told of in the same way.

People are told of a wait when it begins, and then now and then what it is for and how long it has lasted (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from edge_client.link import BY_NETWORK, MAX_BROKEN_OFF, NO_WELCOME, Due, Link, LinkClock
from edge_client.refusals import OF_ONE_RUN, STILL_HELD, ends_holding
from edge_client.session_events import (
    CloseLink,
    DropUplink,
    EndTrainer,
    Event,
    Exit,
    HaltTrainer,
    Held,
    Instruction,
    LinkLost,
    LinkRefused,
    Moved,
    OpenLink,
    PassConstant,
    Permitted,
    Prepare,
    Prepared,
    Progressed,
    Received,
    RestartTrainer,
    Say,
    Send,
    SendUplink,
    StartTask,
    Ticked,
    TrainerDied,
    TrainerFailed,
    UplinkMade,
)
from edge_client.waiting import Wait, Work
from wire.exit_codes import ExitCode
from wire.limits import UNASKED_BYTES, shortened
from wire.messages import (
    Ack,
    Constant,
    Decline,
    Finish,
    Goodbye,
    Grant,
    Message,
    Offer,
    Ping,
    Pong,
    Ready,
    Refusal,
    RefusalCode,
    Standby,
    Task,
    Welcome,
)

MAX_REASON_CHARACTERS = 500
"""Of why a run is declined."""

MAX_TRAINER_RESTARTS = 3
"""A trainer that dies more often than this within one task ends the client."""


class Session:
    """The state machine. `handle` takes one event and returns what is to be done, in order."""

    def __init__(self, seed: int, once: bool, was_let_in: bool = False) -> None:
        """Begin without a run; `was_let_in` says that this coordinator has let the client in before."""
        self._link = LinkClock(seed, was_let_in)
        self.work = Work.NONE
        self.once = once
        self.run = 0
        self.run_id = self._first_run_id = ""
        self.task: tuple[int, int] | None = None
        self._standby: Standby | None = None
        self.waits_for = self._held_by = ""
        self.is_halted = False
        self._ready: Ready | None = None
        self._has_changed = False
        self._uplink_bytes = 0
        self._is_sent = False
        self._restarts = 0
        self._wait = Wait()

        self._on_event: dict[type[Any], Callable[[Any], Iterable[Instruction]]] = {
            LinkLost: self._on_link_lost,
            LinkRefused: lambda event: [Exit(ExitCode.REFUSED, event.reason)],
            Received: self._on_received,
            Prepared: self._on_prepared,
            Progressed: self._on_progressed,
            UplinkMade: self._on_uplink,
            TrainerFailed: self._on_trainer_failed,
            TrainerDied: self._on_trainer_died,
            Moved: self._on_moved,
            Permitted: self._on_permitted,
            Held: self._on_held,
            Ticked: self._on_tick,
        }
        self._on_message: dict[type[Message], Callable[[Any, float], Iterable[Instruction]]] = {
            Standby: self._on_standby,
            Welcome: self._on_welcome,
            Constant: self._on_constant,
            Task: self._on_task,
            Grant: self._on_grant,
            Ack: self._on_ack,
            Refusal: self._on_refusal,
            Ping: self._on_ping,
            Finish: self._on_finish,
        }

    @property
    def link(self) -> Link:
        """The link to the coordinator."""
        return self._link.state

    @property
    def _waits_for(self) -> str:
        """What there is to wait for before the task at hand, within it, or in preparing for it."""
        return self.waits_for or (self._held_by if self.work in (Work.PREPARING, Work.WORKING) else "")

    @property
    def heartbeat_s(self) -> float:
        """How often the coordinator wants to hear something at present."""
        return self._link.heartbeat_s

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event and return the instructions that follow from it."""
        found = list(self._on_event[type(event)](event))
        should_halt = self.work is Work.WORKING and bool(self.waits_for)
        if should_halt != self.is_halted:
            self.is_halted = should_halt
            found.append(HaltTrainer(should_halt))
        is_up = self._link.state is Link.UP
        self._wait.look((self._waits_for or self.work) if is_up else "the coordinator", event.at)
        return found

    def next_wakeup(self) -> float | None:
        """Return when the next `Ticked` is due."""
        of_link = self._link.next_wakeup()
        return None if of_link is None else min(of_link, self._wait.note_at)

    def _on_tick(self, event: Ticked) -> Iterable[Instruction]:
        why_down = "" if self.link is Link.UP else self._link.why_down
        return [*map(Say, self._wait.note(event.at, why_down)), *self._tick_link(event.at)]

    def _tick_link(self, at: float) -> list[Instruction]:
        due = self._link.due(at)
        if due is Due.ATTEMPT:
            self._link.join(at)
            return [OpenLink()]
        if due is Due.PING:
            self._link.beat(self.heartbeat_s, at)
            return [self._ping()]
        late = {Due.WELCOME: NO_WELCOME, Due.WORD: "the coordinator is silent"}
        return self._down(late[due], at) if due is not None else []

    def _on_moved(self, event: Moved) -> Iterable[Instruction]:
        self._link.heard(event.at)
        return []

    def _on_permitted(self, event: Permitted) -> Iterable[Instruction]:
        """Wait for something or for nothing more, and tell the coordinator and people of it."""
        if event.waits_for == self.waits_for:
            return []
        self.waits_for = event.waits_for
        found: list[Instruction] = [Say(f"waiting for {event.waits_for}" if event.waits_for else "no longer waiting")]
        return [*found, self._ping()] if self.link is Link.UP else found

    def _on_held(self, event: Held) -> Iterable[Instruction]:
        self._held_by = event.waits_for
        return [self._ping()] if self.link is Link.UP and self.work in (Work.PREPARING, Work.WORKING) else []

    def _tell_wait(self) -> list[Instruction]:
        return [self._ping()] if self._waits_for else []

    def _ping(self) -> Send:
        return Send(Ping(waits_for=self._waits_for))

    def _on_link_lost(self, event: LinkLost) -> Iterable[Instruction]:
        if self.link is Link.DOWN:
            return []
        num_broken_off = self._link.count_broken_off(event.broken_off)
        if num_broken_off < MAX_BROKEN_OFF:
            return self._down(event.reason, event.at)
        if self._link.was_up:
            return self._down(f"{event.reason} again and again: {BY_NETWORK}", event.at)
        told = "expected a coordinator with the secret key to [coordinator] public_key, got one with another"
        return [
            Exit(ExitCode.REFUSED, f"{event.reason} {num_broken_off} times: {told}, or a network that cuts connections")
        ]

    def _down(self, reason: str, at: float) -> list[Instruction]:
        """Close the link and plan the next attempt; until the next welcome people are told once of each reason."""
        is_news = self._link.down(reason, at)
        return [CloseLink(), Say(f"{reason}; trying again, at most every 20 s")] if is_news else [CloseLink()]

    def _on_received(self, event: Received) -> Iterable[Instruction]:
        self._link.heard(event.at)
        if self.once and isinstance(event.message, Standby | Welcome) and self._names_another(event.message.run_id):
            told = f"run {self._first_run_id} is over, as there is another one; how it ended is not known here"
            return [Exit(ExitCode.INTERRUPTED, told)]
        handler = self._on_message.get(type(event.message))
        return handler(event.message, event.at) if handler else []

    def _names_another(self, run_id: str) -> bool:
        """Say whether this is another run than the first; where it is none, the first may yet go on."""
        return bool(run_id and self._first_run_id) and run_id != self._first_run_id

    def _on_standby(self, standby: Standby, at: float) -> Iterable[Instruction]:
        """Stay on the link whatever becomes of runs; work for another run than the one that it names is dropped."""
        self._standby = standby
        self._link.up(standby.heartbeat_s, at)
        left = self._leave_run(at) if self.run_id not in ("", standby.run_id) else []
        return left if standby.run_id else [*left, Say("waiting for the next run")]

    def _leave_run(self, at: float) -> list[Instruction]:
        self.work, self.task, self.run, self.run_id = Work.NONE, None, 0, ""
        if self._standby is not None:
            self._link.beat(self._standby.heartbeat_s, at)
        return [DropUplink(), EndTrainer()]

    def _decline(self, code: ExitCode, reason: str, at: float) -> list[Instruction]:
        """Take no part in this run: end, or where the link outlasts runs wait for the next."""
        if self._standby is None or self.once:
            return [Exit(code, reason)]
        declined = Send(Decline(self.run, shortened(reason, MAX_REASON_CHARACTERS)))
        return [declined, Say(f"run {self.run_id} declined: {reason}"), *self._leave_run(at)]

    def _on_welcome(self, welcome: Welcome, at: float) -> Iterable[Instruction]:
        self._first_run_id = self._first_run_id or welcome.run_id
        if self.link is not Link.UP:
            self._standby = None
        self._link.up(welcome.heartbeat_s, at)
        found: list[Instruction] = [Say(f"joined run {welcome.run_id}")]
        if welcome.run_id != self.run_id or self.work is Work.NONE:
            self.run, self.run_id = welcome.run, welcome.run_id
            self.work = Work.PREPARING
            self.task, self._ready, self._has_changed, self._restarts, self._held_by = None, None, False, 0, ""
            return [*found, DropUplink(), Prepare(welcome), *self._tell_wait()]
        ready: list[Instruction] = [] if self._ready is None else [Send(self._ready)]
        uplink = self._offer_or_send() if self.work is Work.HOLDING else []
        return [*found, *(ready + uplink if self._has_changed else uplink + ready), *self._tell_wait()]

    def _on_constant(self, constant: Constant, at: float) -> Iterable[Instruction]:
        return [PassConstant()] if constant.run == self.run and self.work is Work.PREPARING else []

    def _on_prepared(self, event: Prepared) -> Iterable[Instruction]:
        """Announce a trainer that is ready, or has other samples; one that was restarted has its task again."""
        is_news = event.ready != self._ready
        self._has_changed = self._has_changed or (is_news and self._ready is not None)
        self._ready = event.ready
        if self.work is Work.PREPARING:
            self.work = Work.IDLE
        return [Send(event.ready)] if self.link is Link.UP and (is_news or self.work is Work.IDLE) else []

    def _on_task(self, task: Task, at: float) -> Iterable[Instruction]:
        if task.run != self.run or self.work in (Work.NONE, Work.PREPARING):
            return []
        if self.task == (task.round, task.exchange) and self.work is Work.HOLDING:
            return [] if self._is_sent else self._offer_or_send()
        if self.task == (task.round, task.exchange) and self.work is Work.WORKING:
            return []
        self.task = (task.round, task.exchange)
        self.work = Work.WORKING
        self._restarts, self._has_changed, self._held_by = 0, False, ""
        return [DropUplink(), StartTask(task)]

    def _on_progressed(self, event: Progressed) -> Iterable[Instruction]:
        current = self.task == (event.progress.round, event.progress.exchange) and self.work is Work.WORKING
        return [Send(event.progress)] if current and self.link is Link.UP else []

    def _on_uplink(self, event: UplinkMade) -> Iterable[Instruction]:
        """Send what the trainer made; one that was restarted hands over the held uplink once more, and that is all."""
        if self.task != (event.round, event.exchange) or self.work not in (Work.WORKING, Work.HOLDING):
            return [DropUplink()]
        self._uplink_bytes = event.size_bytes
        if self.work is Work.HOLDING:
            return []
        self.work = Work.HOLDING
        return self._offer_or_send() if self.link is Link.UP else []

    def _offer_or_send(self) -> list[Instruction]:
        self._is_sent = True
        if self._uplink_bytes <= UNASKED_BYTES or self.task is None:
            return [SendUplink()]
        return [Send(Offer(self.run, *self.task, self._uplink_bytes))]

    def _on_grant(self, grant: Grant, at: float) -> Iterable[Instruction]:
        if not self._holds(grant):
            return []
        self._is_sent = True
        return [SendUplink()]

    def _on_ack(self, ack: Ack, at: float) -> Iterable[Instruction]:
        if not self._holds(ack):
            return []
        self.work = Work.IDLE
        self._has_changed = False
        return [DropUplink()]

    def _holds(self, message: Grant | Ack) -> bool:
        current = message.run == self.run and self.task == (message.round, message.exchange)
        return current and self.work is Work.HOLDING

    def _on_refusal(self, refusal: Refusal, at: float) -> Iterable[Instruction]:
        if refusal.permanent:
            reason = f"refused by the coordinator ({refusal.code}): {refusal.reason}"
            is_of_run = refusal.code in OF_ONE_RUN
            return self._decline(ExitCode.REFUSED, reason, at) if is_of_run else [Exit(ExitCode.REFUSED, reason)]
        if refusal.code == RefusalCode.DATA_INDEX:
            return self._on_put_off(refusal, at)
        if refusal.code == RefusalCode.UNKNOWN_SESSION:
            if self.link is not Link.UP:
                return []
            self._link.join(at)
            return [OpenLink()]
        if refusal.code == RefusalCode.NOT_OPEN:
            self._is_sent = False
        if refusal.code in STILL_HELD:
            return []
        found: list[Instruction] = [Say(f"the coordinator refused the update ({refusal.code}): {refusal.reason}")]
        if self.work is Work.HOLDING and ends_holding(refusal, self.run, self.task):
            self.work = Work.IDLE
            found.append(DropUplink())
        return found

    def _on_put_off(self, refusal: Refusal, at: float) -> list[Instruction]:
        """Try again after a pause: another client has our part of the data, and may be the wrong one."""
        reason = f"the coordinator cannot let this client in now ({refusal.code}): {refusal.reason}"
        stands = self.link is Link.UP and self._standby is not None
        return self._decline(ExitCode.REFUSED, reason, at) if stands else self._down(reason, at)

    def _on_ping(self, ping: Ping, at: float) -> Iterable[Instruction]:
        """Answer: the coordinator asks only when another process has come with our id."""
        return [Send(Pong())]

    def _on_finish(self, finish: Finish, at: float) -> Iterable[Instruction]:
        if finish.run != self.run:
            return []
        if self.once:
            code = {"finished": ExitCode.FINISHED, "failed": ExitCode.FAILED}.get(finish.outcome)
            reason = f"the run is over: {finish.outcome}" + (f" ({finish.reason})" if finish.reason else "")
            return [Exit(ExitCode.INTERRUPTED if code is None else code, reason)]
        reason = f"the run is over: {finish.outcome}"
        told = f"{reason}; waiting for the next one"
        then: list[Instruction] = self._down(told, at) if self._standby is None else [Say(told)]
        return [Send(Goodbye(reason)), *self._leave_run(at), *then]

    def _on_trainer_failed(self, event: TrainerFailed) -> Iterable[Instruction]:
        return [] if self.work is Work.NONE else self._decline(event.code, event.reason, event.at)

    def _on_trainer_died(self, event: TrainerDied) -> Iterable[Instruction]:
        if self.work is Work.NONE:
            return []
        self._restarts, self._held_by = self._restarts + 1, ""
        if self._restarts > MAX_TRAINER_RESTARTS:
            return self._decline(ExitCode.FAILED, f"the trainer died {self._restarts} times: {event.reason}", event.at)
        return [Say(f"the trainer died: {event.reason}; starting it again"), RestartTrainer()]
