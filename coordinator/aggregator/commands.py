"""What the coordinator daemon and its aggregator say to each other through their pipe.

The daemon asks and the aggregator answers, one thing at a time: `Begin` -> `Begun`, `Configure` -> `Configured`,
`Aggregate` followed by its `Contribution`s -> `Aggregated`; `Unusable` in place of any answer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wire.messages import Message


class Begin(Message, frozen=True, array_like=True):
    """Make the server half and give it this state, empty for that before round 1; a user's modules are in `folder`.

    `num_train` is that of `methods.api.Server`, 0 before the first round opens. `log` is where output goes from now on,
    if that is another file.
    """

    tag: ClassVar[int] = 64
    carries_payload: ClassVar[bool] = True
    spec: dict[str, Any]
    folder: str
    wants_constants: bool
    num_train: int
    log: str = ""


class Begun(Message, frozen=True, array_like=True):
    """The server half is there; as many `ConstantMade` as it has constants came before this."""

    tag: ClassVar[int] = 65
    global_hash: str
    versions: dict[str, str]


class ConstantMade(Message, frozen=True, array_like=True):
    """One run constant, to be stored and sent to clients."""

    tag: ClassVar[int] = 66
    carries_payload: ClassVar[bool] = True
    name: str
    digest: str


class Configure(Message, frozen=True, array_like=True):
    """Ask for the downlink of an exchange."""

    tag: ClassVar[int] = 67
    round: int
    exchange: str


class Configured(Message, frozen=True, array_like=True):
    """The downlink."""

    tag: ClassVar[int] = 68
    carries_payload: ClassVar[bool] = True


class Aggregate(Message, frozen=True, array_like=True):
    """Take in this many contributions, which follow in client-id order."""

    tag: ClassVar[int] = 69
    round: int
    exchange: str
    num_contributions: int


class Contribution(Message, frozen=True, array_like=True):
    """One accepted uplink, and the train samples that its client announced at join."""

    tag: ClassVar[int] = 70
    carries_payload: ClassVar[bool] = True
    client: str
    num_train: int


class Aggregated(Message, frozen=True, array_like=True):
    """The state after this exchange, its hash, and metrics to log."""

    tag: ClassVar[int] = 71
    carries_payload: ClassVar[bool] = True
    global_hash: str
    metrics: dict[str, float]


class Unusable(Message, frozen=True, array_like=True):
    """No answer: `round_only` if just this round cannot be aggregated, else the method itself failed."""

    tag: ClassVar[int] = 72
    reason: str
    round_only: bool


COMMANDS: dict[int, type[Message]] = {
    kind.tag: kind
    for kind in (
        Begin, Begun, ConstantMade, Configure, Configured, Aggregate, Contribution, Aggregated, Unusable,
    )
}  # fmt: skip
"""Every message of the aggregator's pipe by its tag."""
