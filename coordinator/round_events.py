"""What happens to the rounds of a run (events) and what follows from it (instructions); see `rounds`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientReady:
    """A client has data and model, for the first time or again after a reconnect."""

    client: str
    at: float


@dataclass(frozen=True)
class ClientGone:
    """A client is no longer connected; `for_good`: nor will it be let in again."""

    client: str
    at: float
    for_good: bool = False


@dataclass(frozen=True)
class Configured:
    """The server half has given the downlink."""

    at: float


@dataclass(frozen=True)
class UpdateArrived:
    """A well-formed update came."""

    client: str
    round: int
    exchange: int
    at: float


@dataclass(frozen=True)
class ProgressMade:
    """A trainer reported progress, or a long message moves to or from its client."""

    client: str
    round: int
    exchange: int
    at: float


@dataclass(frozen=True)
class Aggregated:
    """The server half is done; `failure` says why nothing could be made of the updates."""

    at: float
    failure: str = ""


@dataclass(frozen=True)
class Restored:
    """The server half is back at the state from the start of the failed round."""

    at: float


@dataclass(frozen=True)
class Ticked:
    """Time has passed."""

    at: float


Event = ClientReady | ClientGone | Configured | UpdateArrived | ProgressMade | Aggregated | Restored | Ticked


@dataclass(frozen=True)
class Configure:
    """Ask the server half for the downlink of an exchange."""

    round: int
    exchange: int
    cohort: tuple[str, ...]


@dataclass(frozen=True)
class SendTask:
    """Send the open exchange's downlink to a client."""

    client: str


@dataclass(frozen=True)
class Accept:
    """Store this update, then acknowledge it."""

    client: str


@dataclass(frozen=True)
class Refuse:
    """Tell a client that its update was not taken, and where the run is now."""

    client: str
    code: str
    reason: str


@dataclass(frozen=True)
class Aggregate:
    """Give the server half the accepted updates, in this order."""

    round: int
    exchange: int
    clients: tuple[str, ...]


@dataclass(frozen=True)
class CompleteRound:
    """Record the round as completed; these clients' outcome of it stands."""

    round: int
    accepted: tuple[str, ...]


@dataclass(frozen=True)
class FailRound:
    """Record the round as failed and put the server half back to its start."""

    round: int
    reason: str


@dataclass(frozen=True)
class Finish:
    """The run is over: `finished` or `failed`."""

    outcome: str
    reason: str = ""


Instruction = Configure | SendTask | Accept | Refuse | Aggregate | CompleteRound | FailRound | Finish
