"""What the tests of the session share: a session on a clock of plain numbers, and the messages it hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge_client.link import Link
from edge_client.session import Session
from edge_client.session_events import (
    Event,
    Exit,
    Instruction,
    LinkLost,
    Prepared,
    Received,
    Send,
    StartTask,
    Ticked,
    UplinkMade,
)
from edge_client.waiting import Work
from wire.exit_codes import ExitCode
from wire.messages import Message, Ready, Refusal, Task, Welcome

RUN = 7
HEARTBEAT_S = 5.0
READY = Ready(RUN, 6, 2, [3, 3], 50, 100, 0)
SMALL, LARGE = 1 << 20, (1 << 20) + 1


def welcome(run: int = RUN) -> Welcome:
    return Welcome(run, f"run-{run}", HEARTBEAT_S, 1 << 26, {"seed": 0})


def task(round: int = 1, exchange: int = 0, run: int = RUN) -> Task:
    return Task(run, round, exchange, 0, 0)


def refusal(code: str, round: int = 2, exchange: int = 0, permanent: bool = False) -> Refusal:
    return Refusal(code, "for a reason", permanent, RUN, round, exchange)


class Client:
    """A session with a clock; every step returns the instructions of its event."""

    def __init__(self, once: bool = True, seed: int = 0) -> None:
        self.session = Session(seed, once)
        self.at = 0.0

    def current_work(self) -> Work:
        """Where the session's work is; a call, since mypy takes an attribute for unchanged after an assertion."""
        return self.session.work

    def current_link(self) -> Link:
        """Where the session's link is; see `current_work`."""
        return self.session.link

    def feed(self, make: Callable[..., Event], *content: Any) -> list[Instruction]:
        return self.session.handle(make(*content, at=self.at))

    def hear(self, message: Message) -> list[Instruction]:
        return self.feed(Received, message)

    def tick(self, at: float | None = None) -> list[Instruction]:
        """Let time pass: to this moment, or to the next wake-up."""
        wakeup = self.session.next_wakeup() if at is None else at
        assert wakeup is not None
        self.at = wakeup
        return self.feed(Ticked)

    def cut(self, reason: str = "the cable is out") -> list[Instruction]:
        """Lose the link."""
        return self.feed(LinkLost, reason)

    def join(self) -> list[Instruction]:
        """Connect and be welcomed; return what follows from the welcome."""
        if self.session.next_wakeup() is None:
            self.feed(Ticked)
        else:
            self.tick()
        return self.hear(welcome())

    def prepare(self) -> Client:
        """Join and get ready."""
        self.join()
        assert self.feed(Prepared, READY) == [Send(READY)]
        return self

    def work(self, round: int = 1, exchange: int = 0) -> Client:
        """Take a task, after joining if there was no run yet."""
        if self.session.work is Work.NONE:
            self.prepare()
        assert StartTask(task(round, exchange)) in self.hear(task(round, exchange))
        return self

    def made(self, size_bytes: int = SMALL, round: int = 1, exchange: int = 0) -> list[Instruction]:
        return self.feed(UplinkMade, round, exchange, size_bytes)

    def hold(self, size_bytes: int = SMALL) -> Client:
        """Take a task and finish it."""
        self.work()
        self.made(size_bytes)
        assert self.session.work is Work.HOLDING
        return self


def exit_code(found: list[Instruction]) -> ExitCode:
    """Return the code of the one instruction, which ends the client."""
    assert len(found) == 1
    assert isinstance(found[0], Exit)
    return found[0].code
