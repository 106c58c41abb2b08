"""A client's session under any order of events, beside a caller that does what it says."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edge_client import session_events as events
from edge_client.link import JOIN_S, Link
from edge_client.reconnect import MAX_DELAY_S
from edge_client.session import MAX_TRAINER_RESTARTS, Session
from edge_client.waiting import Work
from tests.edge_client.session_driver import HEARTBEAT_S, LARGE, SMALL, refusal, welcome
from wire.exit_codes import ExitCode
from wire.limits import UNASKED_BYTES
from wire.messages import Ack, Constant, Finish, Grant, Message, Offer, Ping, Pong, Progress, Ready, Task

Place = tuple[int, int]

runs = st.sampled_from([7] * 9 + [8])
alive = precondition(lambda self: not self.ended)
linked = precondition(lambda self: not self.ended and self.session.link is not Link.DOWN)
has_run = precondition(lambda self: not self.ended and self.session.link is Link.UP and self.session.task is not None)
has_task = precondition(lambda self: not self.ended and self.trainer_task is not None)
trains = precondition(lambda self: not self.ended and self.is_prepared and self.trainer_task is not None)


class SessionMachine(RuleBasedStateMachine):
    """The client daemon around a session: its connection, its trainer and the uplink that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.start()

    def start(self) -> None:
        """Begin as a new process."""
        self.session = Session(seed=3, once=False)
        self.ended = False
        self.heard_at = self.at
        self.is_connected = False
        self.has_trainer = False
        self.is_prepared = False
        self.trainer_task: Place | None = None
        self.last_task: Place | None = None
        self.started: Place | None = None
        self.done: Place | None = None
        self.frames: Place | None = None
        self.held: Place | None = None
        self.is_sent = False
        self.may_drop = False
        self.num_restarts = 0
        self.num_train = 6
        self.has_changed = self.is_announced = self.is_halted = False
        self.feed(events.Ticked(self.at))

    @precondition(lambda self: self.ended)
    @rule()
    def start_again(self) -> None:
        self.start()

    @initialize(num_steps=st.sampled_from([0, 1, 2, 2, 2]))
    def begin(self, num_steps: int) -> None:
        """Most clients have a run, or even an uplink, before anything unusual happens to them."""
        if num_steps >= 1:
            self.join()
        if num_steps >= 2:
            self.work(SMALL)

    @precondition(lambda self: not self.ended and (self.session.link is not Link.UP or self.session.work is Work.NONE))
    @rule()
    def join(self) -> None:
        """Everything goes well until the client is there and ready."""
        while self.session.link is Link.DOWN:  # what is due may be to tell people of the wait
            self.tick_when_due()
        self.hear_welcome(self.session.run or 7)
        if not self.is_prepared:
            self.get_ready()

    @precondition(lambda self: not self.ended and self.session.link is Link.UP and self.session.work is Work.IDLE)
    @rule(size_bytes=st.sampled_from([SMALL, LARGE]))
    def work(self, size_bytes: int) -> None:
        """Everything goes well from a new task to its uplink."""
        self.hear_task((1, 0), self.session.run)
        self.finish_task(size_bytes)

    @has_task
    @rule(size_bytes=st.sampled_from([SMALL, LARGE]))
    def finish_task(self, size_bytes: int) -> None:
        """The trainer makes an uplink, if need be after it has loaded again."""
        if not self.is_prepared:
            self.get_ready()
        self.make_uplink(size_bytes)

    # Time and connection

    @alive
    @rule(seconds=st.sampled_from([0.1, 1.0, HEARTBEAT_S, 2 * HEARTBEAT_S, MAX_DELAY_S]))
    def pass_time(self, seconds: float) -> None:
        self.at += seconds

    @alive
    @rule()
    def tick(self) -> None:
        was_up = self.session.link is Link.UP
        self.feed(events.Ticked(self.at))
        if was_up:
            assert (self.session.link is Link.DOWN) == (self.at >= self.heard_at + 2 * HEARTBEAT_S)
        wakeup = self.session.next_wakeup()
        assert wakeup is not None
        assert wakeup > self.at

    @alive
    @rule()
    def tick_when_due(self) -> None:
        self.at = max(self.at, self.session.next_wakeup() or 0.0)
        assert self.feed(events.Ticked(self.at)) != []

    @alive
    @rule(reason=st.sampled_from(["refused", "unreachable"]))
    def lose_link(self, reason: str) -> None:
        self.feed(events.LinkLost(reason, self.at))
        assert self.session.link is Link.DOWN

    # The coordinator

    @linked
    @rule(run=runs)
    def hear_welcome(self, run: int) -> None:
        is_new = run != self.session.run or self.session.work is Work.NONE
        found = self.hear(welcome(run), may_drop=is_new)
        assert self.session.link is Link.UP
        assert any(isinstance(instruction, events.Prepare) for instruction in found) == is_new
        assert self.held is None or any(map(is_sent_or_offered, found))

    @precondition(lambda self: not self.ended and self.session.link is Link.UP and self.session.work is not Work.NONE)
    @rule(steps=st.sampled_from([(0, 0), (0, 1), (1, 0)]), run=runs)
    def hear_task(self, steps: Place, run: int) -> None:
        """The task at hand again, unless it is done, or a newer one."""
        before = self.session.task or (1, 0)
        place = (before[0] + steps[0], before[1] + steps[1])
        if place == self.done:
            return
        is_ours = run == self.session.run and self.session.work not in (Work.NONE, Work.PREPARING)
        was_sent = self.is_sent
        found = self.hear(Task(run, *place, 0, 0), may_drop=is_ours and place != self.held)
        if is_ours and place == self.held:
            assert not found if was_sent else is_sent_or_offered(found[-1])
        elif is_ours and self.started != place:
            raise AssertionError("a task was left lying")

    @has_run
    @rule(shift=st.sampled_from([0, 0, 0, -1]), run=runs)
    def hear_ack(self, shift: int, run: int) -> None:
        place = self.place(shift)
        ends = self.held == place and run == self.session.run
        self.hear(Ack(run, *place), may_drop=ends)
        if ends:
            assert self.session.work is Work.IDLE
            self.done = place
            self.has_changed = False

    @has_run
    @rule(shift=st.sampled_from([0, 0, 0, -1]), run=runs)
    def hear_grant(self, shift: int, run: int) -> None:
        place = self.place(shift)
        found = self.hear(Grant(run, *place))
        assert (events.SendUplink() in found) == (self.held == place and run == self.session.run)

    @has_run
    @rule(code=st.sampled_from(["stale", "duplicate", "malformed", "not_in_cohort"]), shift=st.integers(0, 1))
    def hear_refusal(self, code: str, shift: int) -> None:
        """The coordinator names the exchange at hand or a later one as the current one."""
        place, was_held = self.place(shift), self.held is not None
        message = refusal(code, *place)
        is_final = code in ("malformed", "not_in_cohort") or (code == "stale" and place != self.held)
        self.hear(message, may_drop=is_final or message.run != self.session.run)
        assert not is_final or self.held is None
        if was_held and self.held is None:
            self.started = None

    @has_run
    @rule()
    def hear_not_open(self) -> None:
        assert self.hear(refusal("not_open", *self.place(0))) == []
        self.is_sent = False

    @linked
    @rule()
    def hear_unknown_session(self) -> None:
        was_up = self.session.link is Link.UP
        self.hear(refusal("unknown_session"))
        assert self.session.link is Link.JOINING
        assert not was_up or self.session.next_wakeup() == self.at + JOIN_S

    @precondition(lambda self: not self.ended and self.held is not None)
    @rule()
    def hear_permanent_refusal(self) -> None:
        assert isinstance(self.hear(refusal("version", permanent=True))[0], events.Exit)

    @has_run
    @rule(run=runs, outcome=st.sampled_from(["finished", "failed", "interrupted"]))
    def hear_finish(self, run: int, outcome: str) -> None:
        is_ours = run == self.session.run
        self.hear(Finish(run, outcome), may_drop=is_ours)
        assert not is_ours or (self.session.link, self.session.work) == (Link.DOWN, Work.NONE)

    @linked
    @rule(message=st.sampled_from([Ping(), Pong(), Constant(7, "masks", "digest")]))
    def hear_other(self, message: Message) -> None:
        found = self.hear(message)
        assert found == [events.Send(Pong())] or not isinstance(message, Ping)

    # The trainer

    @precondition(lambda self: not self.ended and self.has_trainer and not self.is_prepared)
    @rule()
    def get_ready(self) -> None:
        self.is_prepared = True
        self.feed(events.Prepared(self.ready(), self.at))

    @trains
    @rule()
    def change_samples(self) -> None:
        """The trainer finds other samples when it begins a task."""
        self.num_train += 1
        self.has_changed, self.is_announced = True, False
        self.feed(events.Prepared(self.ready(), self.at))

    def ready(self) -> Ready:
        return Ready(self.session.run, self.num_train, 2, [3, self.num_train - 3], 50, 100, 0)

    @alive
    @rule(waits_for=st.sampled_from(["", "night"]))
    def permit(self, waits_for: str) -> None:
        self.feed(events.Permitted(waits_for, self.at))

    @trains
    @rule()
    def progress(self) -> None:
        assert self.trainer_task is not None
        self.feed(events.Progressed(Progress(self.session.run, *self.trainer_task, 1, 2), self.at))

    def make_uplink(self, size_bytes: int) -> None:
        assert self.trainer_task is not None
        place, self.trainer_task = self.trainer_task, None
        is_wanted = self.started == place and self.session.work in (Work.WORKING, Work.HOLDING)
        self.frames = place
        self.held = place if is_wanted else self.held
        found = self.feed(events.UplinkMade(*place, size_bytes, self.at))
        if not is_wanted:
            assert found == [events.DropUplink()]

    @precondition(lambda self: not self.ended and self.has_trainer)
    @rule()
    def kill_trainer(self) -> None:
        found = self.feed(events.TrainerDied("killed", self.at))
        if self.session.work is not Work.NONE:
            self.num_restarts += 1
            assert isinstance(found[-1], events.Exit) == (self.num_restarts > MAX_TRAINER_RESTARTS)

    # What must hold

    @invariant()
    def a_held_uplink_is_kept(self) -> None:
        assert (self.session.work is Work.HOLDING) == (self.held is not None)
        if self.held is not None:
            assert self.frames == self.held == self.session.task

    @invariant()
    def the_link_is_what_the_caller_was_told(self) -> None:
        assert self.is_connected == (self.session.link is not Link.DOWN)

    @invariant()
    def the_session_wakes_up_in_time(self) -> None:
        wakeup = self.session.next_wakeup()
        longest = {Link.DOWN: MAX_DELAY_S, Link.JOINING: JOIN_S, Link.UP: HEARTBEAT_S}[self.session.link]
        assert wakeup is not None
        assert wakeup <= self.at + longest

    @invariant()
    def a_trainer_at_work_stands_still_exactly_while_it_must_wait(self) -> None:
        must_wait = self.session.work is Work.WORKING and self.session.waits_for != ""
        assert self.is_halted == self.session.is_halted == must_wait

    def place(self, shift: int) -> Place:
        """The round and exchange of the task at hand, or of a round before or after it."""
        round, exchange = self.session.task or (1, 0)
        return round + shift, exchange

    def hear(self, message: Message, may_drop: bool = False) -> Sequence[events.Instruction]:
        self.heard_at = self.at
        return self.feed(events.Received(message, self.at), may_drop)

    def feed(self, event: events.Event, may_drop: bool = False) -> Sequence[events.Instruction]:
        """Give the session an event and do what it says."""
        found = self.session.handle(event)
        self.may_drop = may_drop
        for instruction in found:
            assert not self.ended
            self.obey(instruction)
        return found

    def obey(self, instruction: events.Instruction) -> None:
        if isinstance(instruction, events.OpenLink):
            self.is_connected = True
        elif isinstance(instruction, events.CloseLink):
            self.is_connected = self.is_sent = self.is_announced = False
        elif isinstance(instruction, events.Send | events.SendUplink):
            self.check_sent(instruction)
            self.is_sent = self.is_sent or is_sent_or_offered(instruction)
        elif isinstance(instruction, events.DropUplink):
            assert self.held is None or self.may_drop
            self.held = self.frames = None
            self.is_sent = False
        elif isinstance(instruction, events.Exit):
            assert instruction.code in (ExitCode.REFUSED, ExitCode.FAILED)
            assert instruction.reason
            self.ended = True
        else:
            self.obey_for_trainer(instruction)

    def obey_for_trainer(self, instruction: events.Instruction) -> None:
        if isinstance(instruction, events.Prepare):
            self.has_trainer, self.is_prepared = True, False
            self.trainer_task = self.last_task = self.started = self.done = None
            self.num_restarts = 0
            self.has_changed = False
        elif isinstance(instruction, events.StartTask):
            place = (instruction.task.round, instruction.task.exchange)
            assert self.started != place
            assert instruction.task.run == self.session.run
            self.trainer_task = self.last_task = self.started = place
            self.num_restarts = 0
            self.has_changed = False
        elif isinstance(instruction, events.RestartTrainer):
            self.is_prepared, self.trainer_task = False, self.last_task
        elif isinstance(instruction, events.HaltTrainer):
            assert instruction.is_halted != self.is_halted
            self.is_halted = instruction.is_halted
        elif isinstance(instruction, events.PassConstant):
            assert self.session.work is Work.PREPARING

    def check_sent(self, sent: events.Send | events.SendUplink) -> None:
        assert self.is_connected
        if is_sent_or_offered(sent):
            assert self.is_announced or not self.has_changed, "an uplink is measured by the samples that were announced"
        if isinstance(sent, events.SendUplink):
            assert self.held is not None
            assert self.frames == self.held
        elif isinstance(sent.message, Offer):
            assert (sent.message.round, sent.message.exchange) == self.held
            assert sent.message.size_bytes > UNASKED_BYTES
        elif isinstance(sent.message, Ready | Progress):
            assert sent.message.run == self.session.run
            self.is_announced = self.is_announced or sent.message == self.ready()
        elif isinstance(sent.message, Ping):
            assert sent.message.waits_for == self.session.waits_for


def is_sent_or_offered(instruction: events.Instruction) -> bool:
    if isinstance(instruction, events.Send):
        return isinstance(instruction.message, Offer)
    return instruction == events.SendUplink()


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=100, stateful_step_count=50)
