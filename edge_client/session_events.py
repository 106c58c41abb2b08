"""What happens to a client's session (events) and what follows from it (instructions); see `session`."""

from __future__ import annotations

from dataclasses import dataclass

from wire.exit_codes import ExitCode
from wire.messages import Message, Progress, Ready, Task, Welcome


@dataclass(frozen=True)
class LinkLost:
    """The connection ended or could not be made.

    `broken_off`: a peer that encrypts was there, and broke off the handshake without a word.
    """

    reason: str
    at: float
    broken_off: bool = False


@dataclass(frozen=True)
class LinkRefused:
    """The other end will not have this connection, however often it is tried."""

    reason: str
    at: float


@dataclass(frozen=True)
class Received:
    """The coordinator sent a message."""

    message: Message
    at: float


@dataclass(frozen=True)
class Prepared:
    """The trainer has loaded data and model."""

    ready: Ready
    at: float


@dataclass(frozen=True)
class Progressed:
    """The trainer moved on."""

    progress: Progress
    at: float


@dataclass(frozen=True)
class UplinkMade:
    """The trainer has checkpointed and encoded the uplink of a task; the caller keeps its frames."""

    round: int
    exchange: int
    size_bytes: int
    at: float


@dataclass(frozen=True)
class TrainerFailed:
    """The trainer cannot go on; `code` is what the client should exit with."""

    reason: str
    code: ExitCode
    at: float


@dataclass(frozen=True)
class TrainerDied:
    """The trainer's process ended by itself."""

    reason: str
    at: float


@dataclass(frozen=True)
class Moved:
    """Part of a message came or went at this time: a long one on a slow link is not silence."""

    at: float


@dataclass(frozen=True)
class Permitted:
    """The trainer may work, or must wait for something, which is said in words."""

    waits_for: str
    at: float


@dataclass(frozen=True)
class Ticked:
    """Time has passed."""

    at: float


Event = (
    LinkLost
    | LinkRefused
    | Received
    | Prepared
    | Progressed
    | UplinkMade
    | TrainerFailed
    | TrainerDied
    | Moved
    | Permitted
    | Ticked
)


@dataclass(frozen=True)
class OpenLink:
    """Connect anew and say hello."""


@dataclass(frozen=True)
class CloseLink:
    """Drop the connection."""


@dataclass(frozen=True)
class Send:
    """Send a message without payload."""

    message: Message


@dataclass(frozen=True)
class SendUplink:
    """Send the kept uplink."""


@dataclass(frozen=True)
class DropUplink:
    """Forget the kept uplink."""


@dataclass(frozen=True)
class Prepare:
    """Start a trainer for this run (in place of any other)."""

    welcome: Welcome


@dataclass(frozen=True)
class PassConstant:
    """Hand the run constant that just came to the trainer."""


@dataclass(frozen=True)
class StartTask:
    """Hand the task that just came to the trainer."""

    task: Task


@dataclass(frozen=True)
class RestartTrainer:
    """Start the trainer again, and give it the last task if there is one."""


@dataclass(frozen=True)
class HaltTrainer:
    """Have the trainer stand still, or let it go on; one that is started is as `Session.is_halted` says."""

    is_halted: bool


@dataclass(frozen=True)
class EndTrainer:
    """End the trainer: its run is over."""


@dataclass(frozen=True)
class Exit:
    """End the client with this code; the reason is for people."""

    code: ExitCode
    reason: str


@dataclass(frozen=True)
class Say:
    """Tell people."""

    text: str


Instruction = (
    OpenLink
    | CloseLink
    | Send
    | SendUplink
    | DropUplink
    | Prepare
    | PassConstant
    | StartTask
    | RestartTrainer
    | HaltTrainer
    | EndTrainer
    | Exit
    | Say
)
