"""What happens to a client's session (events) and what follows from it (instructions); see `session`."""

from __future__ import annotations

import msgspec

from wire.exit_codes import ExitCode
from wire.messages import Message, Progress, Ready, Task, Welcome


class LinkLost(msgspec.Struct, frozen=True):
    """The connection ended or could not be made.

    `broken_off`: a peer that encrypts was there, and broke off the handshake without a word.
    """

    reason: str
    at: float
    broken_off: bool = False


class LinkRefused(msgspec.Struct, frozen=True):
    """The other end will not have this connection, however often it is tried."""

    reason: str
    at: float


class Received(msgspec.Struct, frozen=True):
    """The coordinator sent a message."""

    message: Message
    at: float


class Prepared(msgspec.Struct, frozen=True):
    """The trainer has loaded data and model."""

    ready: Ready
    at: float


class Progressed(msgspec.Struct, frozen=True):
    """The trainer moved on."""

    progress: Progress
    at: float


class UplinkMade(msgspec.Struct, frozen=True):
    """The trainer has checkpointed and encoded the uplink of a task; the caller keeps its frames."""

    round: int
    exchange: int
    size_bytes: int
    at: float


class TrainerFailed(msgspec.Struct, frozen=True):
    """The trainer cannot go on; `code` is what the client should exit with."""

    reason: str
    code: ExitCode
    at: float


class TrainerDied(msgspec.Struct, frozen=True):
    """The trainer's process ended by itself."""

    reason: str
    at: float


class Moved(msgspec.Struct, frozen=True):
    """Part of a message came or went at this time: a long one on a slow link is not silence."""

    at: float


class Permitted(msgspec.Struct, frozen=True):
    """The trainer may work, or must wait for something, which is said in words."""

    waits_for: str
    at: float


class Held(msgspec.Struct, frozen=True):
    """The trainer waits for something, such as space on the disk, in words; "" where it goes on."""

    waits_for: str
    at: float


class Ticked(msgspec.Struct, frozen=True):
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
    | Held
    | Ticked
)


class OpenLink(msgspec.Struct, frozen=True):
    """Connect anew and say hello."""


class CloseLink(msgspec.Struct, frozen=True):
    """Drop the connection."""


class Send(msgspec.Struct, frozen=True):
    """Send a message without payload."""

    message: Message


class SendUplink(msgspec.Struct, frozen=True):
    """Send the kept uplink."""


class DropUplink(msgspec.Struct, frozen=True):
    """Forget the kept uplink."""


class Prepare(msgspec.Struct, frozen=True):
    """Start a trainer for this run (in place of any other)."""

    welcome: Welcome


class PassConstant(msgspec.Struct, frozen=True):
    """Hand the run constant that just came to the trainer."""


class StartTask(msgspec.Struct, frozen=True):
    """Hand the task that just came to the trainer."""

    task: Task


class RestartTrainer(msgspec.Struct, frozen=True):
    """Start the trainer again, and give it the last task if there is one."""


class HaltTrainer(msgspec.Struct, frozen=True):
    """Have the trainer stand still, or let it go on; one that is started is as `Session.is_halted` says."""

    is_halted: bool


class EndTrainer(msgspec.Struct, frozen=True):
    """End the trainer: its run is over."""


class Exit(msgspec.Struct, frozen=True):
    """End the client with this code; the reason is for people."""

    code: ExitCode
    reason: str


class Say(msgspec.Struct, frozen=True):
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
