"""The messages of the protocol: one frozen record each, array-like so that fields travel by position.

Evolution (`PROTOCOL.md`, Versions): a new field goes to the end and has a default; a type never changes; a retired tag
is never used again. A message whose class has `carries_payload` is followed by a payload, the others stand alone.

Client to coordinator: `Hello`, `Ready`, `Progress`, `Offer`, `Update`, `Goodbye`, `Sounding`, `Decline`.
Coordinator to client: `Welcome`, `Constant`, `Task`, `Grant`, `Ack`, `Refusal`, `Finish`, `Echo`, `Standby`.
Both ways: `Ping`, answered by `Pong`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True):
    """The parent of all messages; `tag` is the first entry of the header."""

    tag: ClassVar[int]
    carries_payload: ClassVar[bool] = False


class Hello(Message, frozen=True, array_like=True):
    """Asks to take part. `incarnation` is drawn once per process start: it tells a reconnect from a second process."""

    tag: ClassVar[int] = 1
    version: tuple[int, int]
    client: str
    incarnation: int
    constants: list[str] = []
    device: dict[str, Any] = {}


class Welcome(Message, frozen=True, array_like=True):
    """Admits a client. `spec` is the run as `models.spec.RunSpec` reads it; `run` its number in later messages.

    `constants` are the digests of the run constants, `names` what the method calls each; runs may differ in that.
    """

    tag: ClassVar[int] = 2
    run: int
    run_id: str
    heartbeat_s: float
    max_message_bytes: int
    spec: dict[str, Any]
    constants: list[str] = []
    names: list[str] = []


class Constant(Message, frozen=True, array_like=True):
    """One run constant that the client's hello did not list; counted as `init`."""

    tag: ClassVar[int] = 3
    carries_payload: ClassVar[bool] = True
    run: int
    name: str
    digest: str


class Ready(Message, frozen=True, array_like=True):
    """The client holds data and model for the run; it comes again when its samples have changed, or a state is lost.

    `class_counts` are train samples per class of the label map, `num_skipped` is what the device has and cannot use.
    `computed_by` says what computes features there. `lost_round` is the `Task.kept` whose state is not there, as
    it is gone, or the client is ahead of the coordinator.
    """

    tag: ClassVar[int] = 4
    run: int
    num_train: int
    num_test: int
    class_counts: list[int]
    feature_dim: int
    num_parameters: int
    num_buffers: int
    test_counts: list[int] = []
    num_skipped: int = 0
    computed_by: str = ""
    lost_round: int = 0


class Task(Message, frozen=True, array_like=True):
    """The downlink of one exchange.

    `kept` is the last round whose final update of this client was accepted: a client that holds the outcome of a
    later one puts itself back; in a later exchange of a round it is that round, once the client's update of the
    exchange before was accepted. `base` is the round that made the global state which this payload carries.
    `exchange` counts from 0; the evaluation after the last round has the index behind the last exchange.
    """

    tag: ClassVar[int] = 5
    carries_payload: ClassVar[bool] = True
    run: int
    round: int
    exchange: int
    kept: int
    base: int


class Progress(Message, frozen=True, array_like=True):
    """The trainer moved on; below quorum it extends the exchange's deadline. `done` of `total` steps."""

    tag: ClassVar[int] = 6
    run: int
    round: int
    exchange: int
    done: int
    total: int


class Offer(Message, frozen=True, array_like=True):
    """An uplink of `size_bytes`, more than the coordinator takes unasked, waits here for its grant."""

    tag: ClassVar[int] = 7
    run: int
    round: int
    exchange: int
    size_bytes: int


class Grant(Message, frozen=True, array_like=True):
    """The offered uplink may be sent."""

    tag: ClassVar[int] = 8
    run: int
    round: int
    exchange: int


class Evaluation(msgspec.Struct, frozen=True, array_like=True):
    """Test samples and counts over them, by what was counted, for the model after `round`.

    A rule's count, of the samples that it got right, stands under its index in the method's list.
    """

    round: int
    num_test: int
    correct: dict[int, int]


class Update(Message, frozen=True, array_like=True):
    """The uplink of one exchange: kept by the client and sent again until it is acknowledged or refused.

    All of it follows from the run, so the same run costs the same bytes; what was measured has a frame of its own
    (`wire.timing`).
    """

    tag: ClassVar[int] = 9
    carries_payload: ClassVar[bool] = True
    run: int
    round: int
    exchange: int
    evaluations: list[Evaluation] = []


class Ack(Message, frozen=True, array_like=True):
    """The update is durable and counted once; the client may forget it."""

    tag: ClassVar[int] = 10
    run: int
    round: int
    exchange: int


class Refusal(Message, frozen=True, array_like=True):
    """Something was not accepted. `round` and `exchange` are the current ones; a permanent refusal ends the client."""

    tag: ClassVar[int] = 11
    code: str
    reason: str
    permanent: bool
    run: int = 0
    round: int = 0
    exchange: int = 0


class Vitals(msgspec.Struct, frozen=True, array_like=True):
    """What a client's process has counted since it began to join the run; 0 where it does not know.

    Attributes:
        sent_bytes: TCP payload that it sent, each byte once, on all its connections; this message not included.
        received_bytes: the same of what came.
        num_retransmits: segments that it sent again.
        gpu_peak_bytes: peak memory of its trainer on the GPU.
        clock_s: its clock, in seconds since the epoch.
    """

    sent_bytes: int = 0
    received_bytes: int = 0
    num_retransmits: int = 0
    gpu_peak_bytes: int = 0
    clock_s: float = 0.0


class Ping(Message, frozen=True, array_like=True):
    """Asks the peer for a `Pong`.

    A client's carries its own and its trainer's peak resident memory, 0 if unknown, and what it waits for before it
    trains, in words; nothing if it does not wait.
    """

    tag: ClassVar[int] = 12
    client_peak_rss_bytes: int = 0
    trainer_peak_rss_bytes: int = 0
    waits_for: str = ""
    vitals: Vitals = Vitals()


class Pong(Message, frozen=True, array_like=True):
    """Answers a `Ping`: the sender's daemon lives."""

    tag: ClassVar[int] = 13


class Finish(Message, frozen=True, array_like=True):
    """The run is over. `outcome` is `finished`, `failed` or `interrupted`."""

    tag: ClassVar[int] = 14
    run: int
    outcome: str
    reason: str = ""


class Goodbye(Message, frozen=True, array_like=True):
    """The client leaves in order; with its last figures."""

    tag: ClassVar[int] = 15
    reason: str
    client_peak_rss_bytes: int = 0
    trainer_peak_rss_bytes: int = 0
    vitals: Vitals = Vitals()


class Sounding(Message, frozen=True, array_like=True):
    """Measures the way to the coordinator, outside any run. `returns`: whether the payload is to come back as well."""

    tag: ClassVar[int] = 16
    carries_payload: ClassVar[bool] = True
    version: tuple[int, int]
    number: int
    returns: bool = False


class Echo(Message, frozen=True, array_like=True):
    """Answers a `Sounding`: whose key the connection has, and the coordinator's clock in seconds since 1970."""

    tag: ClassVar[int] = 17
    carries_payload: ClassVar[bool] = True
    version: tuple[int, int]
    number: int
    client: str
    clock_s: float


class Standby(Message, frozen=True, array_like=True):
    """Answers a `Hello` where runs come and go: the client is known, and the link outlasts every run.

    `run_id` is the run that the client is in and whose `Welcome` follows, empty if there is none; what it holds of any
    other is of no use. Between runs it sends a `Ping` every `heartbeat_s`.
    """

    tag: ClassVar[int] = 18
    heartbeat_s: float
    run_id: str = ""


class Decline(Message, frozen=True, array_like=True):
    """The client cannot take part in the run that it was welcomed to; it stays for others."""

    tag: ClassVar[int] = 19
    run: int
    reason: str


class RefusalCode:
    """The closed list of refusal codes; the first group is permanent."""

    VERSION = "version"
    DUPLICATE_CLIENT = "duplicate_client"
    FEATURE_DIM = "feature_dim"
    LABEL_MAP = "label_map"
    CLIENT_ID = "client_id"
    MODEL = "model"
    KEY = "key"
    LEFT_OUT = "left_out"

    UNKNOWN_SESSION = "unknown_session"
    DATA_INDEX = "data_index"
    NOT_OPEN = "not_open"
    STALE = "stale"
    DUPLICATE = "duplicate"
    NOT_IN_COHORT = "not_in_cohort"
    MALFORMED = "malformed"


NETWORK: dict[int, type[Message]] = {
    kind.tag: kind
    for kind in (
        Hello, Welcome, Constant, Ready, Task, Progress, Offer, Grant,
        Update, Ack, Refusal, Ping, Pong, Finish, Goodbye, Sounding, Echo,
        Standby, Decline,
    )
}  # fmt: skip
"""Every message of the network protocol by its tag."""
