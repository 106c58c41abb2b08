"""What happens to the rounds of a run (events) and what follows from it (instructions); see `rounds`."""

from __future__ import annotations

import msgspec


class ClientReady(msgspec.Struct, frozen=True):
    """A client has data and model, for the first time or again after a reconnect."""

    client: str
    at: float


class ClientGone(msgspec.Struct, frozen=True):
    """A client is no longer connected; `for_good`: nor will it be let in again."""

    client: str
    at: float
    for_good: bool = False


class Configured(msgspec.Struct, frozen=True):
    """The server half has given the downlink."""

    at: float


class UpdateArrived(msgspec.Struct, frozen=True):
    """A well-formed update came."""

    client: str
    round: int
    exchange: int
    at: float


class MisfitArrived(msgspec.Struct, frozen=True):
    """An update came that is not what its client may send: its numbers or its form cannot be right."""

    client: str
    round: int
    exchange: int
    reason: str
    at: float


class ProgressMade(msgspec.Struct, frozen=True):
    """A trainer reported progress, or a long message moves to or from its client."""

    client: str
    round: int
    exchange: int
    at: float


class Aggregated(msgspec.Struct, frozen=True):
    """The server half is done; `failure` says why nothing could be made of the updates."""

    at: float
    failure: str = ""


class Restored(msgspec.Struct, frozen=True):
    """The server half is back at the state from the start of the failed round."""

    at: float


class Ticked(msgspec.Struct, frozen=True):
    """Time has passed."""

    at: float


Event = (
    ClientReady
    | ClientGone
    | Configured
    | UpdateArrived
    | MisfitArrived
    | ProgressMade
    | Aggregated
    | Restored
    | Ticked
)


class Configure(msgspec.Struct, frozen=True):
    """Ask the server half for the downlink of an exchange."""

    round: int
    exchange: int
    cohort: tuple[str, ...]


class SendTask(msgspec.Struct, frozen=True):
    """Send the open exchange's downlink to a client."""

    client: str


class Accept(msgspec.Struct, frozen=True):
    """Store this update, then acknowledge it."""

    client: str


class Refuse(msgspec.Struct, frozen=True):
    """Tell a client that its update was not taken, and where the run is now."""

    client: str
    code: str
    reason: str


class Aggregate(msgspec.Struct, frozen=True):
    """Give the server half the accepted updates, in this order."""

    round: int
    exchange: int
    clients: tuple[str, ...]


class CompleteRound(msgspec.Struct, frozen=True):
    """Record the round as completed; these clients' outcome of it stands."""

    round: int
    accepted: tuple[str, ...]


class FailRound(msgspec.Struct, frozen=True):
    """Record the round as failed and put the server half back to its start."""

    round: int
    reason: str


class Finish(msgspec.Struct, frozen=True):
    """The run is over: `finished` or `failed`."""

    outcome: str
    reason: str = ""


Instruction = Configure | SendTask | Accept | Refuse | Aggregate | CompleteRound | FailRound | Finish
