"""What the tests of the lobby share: a lobby with lists in place of sockets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from coordinator.aggregator.half import Constant
from coordinator.clients.door import Arrival
from coordinator.clients.lobby import Events, Lobby
from models import methods
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from wire.encoding import Frames, decode, pack
from wire.messages import Hello, Message, Ready, Refusal, Welcome
from wire.payload import Payload
from wire.sockets.tcp import Counters
from wire.version import PROTOCOL_VERSION

RUN = 7
HEARTBEAT_S = 5.0
SPEC = RunSpec(
    run_id="run-7",
    seed=0,
    num_rounds=3,
    method=methods.default().name,
    method_config={},
    classes=list("0123"),
    data=DataConfig(),
    model=ModelConfig(feature_dim=6),
    training=TrainingConfig(),
    evaluation=EvaluationConfig(),
    wire=WireConfig(),
)
OURS = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
MASKS = Constant("masks", "digest-masks", pack(Payload.of_state({"kept": np.arange(3, dtype=np.int64)})))
ETF = Constant("etf", "digest-etf", pack(Payload.of_state({"frame": np.ones(2, np.float32)})))


def quiet(for_s: float, unsent_bytes: int = 0) -> Counters:
    """Return the counts of a connection on which nothing has come in for so long."""
    return Counters(0, 0, 0, 0.01, 0, unsent_bytes, for_s)


def ready(**changes: Any) -> Ready:
    fields: dict[str, Any] = {
        "run": RUN,
        "num_train": 6,
        "num_test": 2,
        "class_counts": [3, 2, 1, 0],
        "feature_dim": 6,
        "num_parameters": 100,
        "num_buffers": 10,
    }
    return Ready(**{**fields, **changes})


class Hall:
    """A lobby, all that it sent by route, and all that it told the run."""

    def __init__(
        self,
        shares_model: bool = False,
        is_open: bool = True,
        constants: tuple[Constant, ...] = (),
        announced: Mapping[str, Ready] | None = None,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        method = dataclasses.replace(methods.default(), shares_model=shares_model)
        welcome = Welcome(RUN, "run-7", HEARTBEAT_S, 1 << 20, {"seed": 0})
        events = Events(
            ready=lambda client, ready, again: self.told.append(
                f"{client} {'has other samples' if again else 'is ready'}"
            ),
            gone=lambda client: self.told.append(f"{client} is gone"),
            constant_sent=lambda client, constant, packed, frames: self.told.append(
                f"{client} was sent {constant.name}"
            ),
            undelivered=lambda client: self.undelivered.append(client),
            note=lambda text: self.notes.append(text),
            turned_away=lambda code, reason: self.turned_away.append((code, reason)),
            waiting=lambda waits_for: self.waiting.append(dict(waits_for)),
            joined=lambda client, route, device: self.joined.append((client, route, dict(device))),
        )
        self.told: list[str] = []
        self.undelivered: list[str] = []
        self.notes: list[str] = []
        self.waiting: list[dict[str, str]] = []
        self.joined: list[tuple[str, bytes, dict[str, Any]]] = []
        self.turned_away: list[tuple[str, str]] = []
        self.sent: list[tuple[bytes, Message]] = []
        self.cut: set[bytes] = set()
        self.counters: dict[bytes, Counters] = {}
        self.left_out = dict(left_out or {})
        self.at = 0.0
        self.lobby = Lobby(SPEC, method, welcome, announced or {}, self.left_out, self._send, self.counters.get, events)
        if is_open:
            self.lobby.open(constants)

    def _send(self, route: bytes, frames: Frames) -> bool:
        if route in self.cut:
            return False
        self.sent.append((route, decode(frames)[0]))
        return True

    def take(self, route: bytes, message: Message, owner: str | None = None) -> str | None:
        return self.lobby.take(Arrival(route, owner, message, None, [], None), self.at)

    def hello(self, client: str, route: bytes, incarnation: int = 1, **changes: Any) -> list[Message]:
        """Let a client say hello and return what came back by its route."""
        self.take(route, Hello(**{"version": OURS, "client": client, "incarnation": incarnation, **changes}))
        return self.answers(route)

    def join(self, client: str, **changes: Any) -> list[Message]:
        """Let a client say hello and get ready, by the route of its name; return what came of the latter."""
        self.hello(client, client.encode())
        self.take(client.encode(), ready(**changes))
        return self.answers(client.encode())

    def answers(self, route: bytes) -> list[Message]:
        """Return what was sent to this route since the last time."""
        found = [message for to, message in self.sent if to == route]
        self.sent = [(to, message) for to, message in self.sent if to != route]
        return found


def refusal(answers: list[Message]) -> tuple[str, str, bool]:
    assert len(answers) == 1
    assert isinstance(answers[0], Refusal)
    return answers[0].code, answers[0].reason, answers[0].permanent
