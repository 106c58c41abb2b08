"""One client of a run: its net, its data and the method's client half, driven exchange by exchange.

The trainer on a device and the simulator both use this; what the daemons see of it is payloads and counts. Torch is
imported when a participant is made whose net needs it, not before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from models import methods, seeding
from models.announcement import announce
from models.backend import backend_of
from models.checkpoint import state_hash
from models.data import ClientData
from models.evaluation import evaluate, evaluate_by_task
from models.methods.api import Client, ClientContext, Exchange, Method
from models.methods.faults import arrays_in, asked, expect, made_by
from models.nets import NetShelf
from models.privacy import Release, check_noise
from models.spec import ConfigError, RunSpec
from models.tasks import counters
from wire.payload import EMPTY, Payload, Record, RecordError

if TYPE_CHECKING:
    from models.batched import Together, Trained
    from models.steps import Progress


class Evaluation(NamedTuple):
    """Test samples, and counts over them by index in `models.tasks.counters`, for the model after `round`."""

    round: int
    num_test: int
    correct: dict[int, int]


class Outcome(msgspec.Struct, frozen=True):
    """What one exchange made: the uplink, what was evaluated, and notes for people.

    `train_s` is the time for training and for computing the uplink, `evaluate_s` that for taking in and testing models.
    """

    uplink: Payload
    evaluations: list[Evaluation] = msgspec.field(default_factory=list)
    train_s: float = 0.0
    evaluate_s: float = 0.0
    notes: list[str] = msgspec.field(default_factory=list)
    features: dict[str, np.ndarray] = msgspec.field(default_factory=dict)
    """For an audit, after a task's last round; see `models.audit`."""


class Attempt(msgspec.Struct):
    """An exchange that a client has taken up and has yet to hand over; `candidates` are for an audit."""

    round: int
    exchange: int
    declared: Exchange
    evaluations: list[Evaluation]
    notes: list[str]
    evaluate_s: float
    candidates: np.ndarray | None
    seed: int
    """Keys the draws of training."""
    train_s: float = 0.0


class Participant:
    """A client half with its net and data, in its initial state until `load`."""

    def __init__(
        self,
        spec: RunSpec,
        method: Method,
        client_id: str,
        data: ClientData,
        constants: Mapping[str, Mapping[str, np.ndarray]] | None = None,
        shelf: NetShelf | None = None,
        secret: bytes = b"",
    ) -> None:
        """Build net and client half.

        Args:
            spec: the run, with the device and the threads that this client computes with.
            method: its method.
            client_id: keys this client's random draws.
            data: this client's samples.
            constants: the run constants that the server half made.
            shelf: where participants of one process share their nets; `load` must then come before each `perform`.
            secret: what noise follows from, where the run adds some; see `models.privacy`.

        Raises:
            ConfigError: net, data and label map do not fit each other, or the method's settings are wrong.
            models.methods.faults.MethodError: the client half failed, as it may in all that follows.
        """
        if data.classes != spec.classes:
            raise ConfigError(f"client {client_id}: expected label map {spec.classes}, its data have {data.classes}")
        self._spec, self._method, self._client_id = spec, method, client_id
        self._digests: dict[int, str] = {}
        config = methods.read_config(method, spec.method_config)
        check_noise(spec.privacy, method, spec.evaluation.rule)
        self._secret = secret
        constants = constants or {}
        self._backend = backend = backend_of(spec, method, config, constants)
        self._data = data = backend.prepared(client_id, data)
        self._told_counts = self._released_counts()
        self.notes = [*data.notes, *backend.notes]
        with asked("making of the client half"):
            self._client = backend.make_client()
        net = backend.build_net(data.train_x, client_id, shelf)
        self._plan = spec.plan
        self._counters = counters(method.rules, self._plan)
        context = ClientContext(client_id, net, backend.device, constants=constants, **self._samples_of(1))
        with asked("start of the client half"):
            self._client.start(context)
        self.announcement = announce(spec, data, self._told_counts, backend, net)
        self._task = 1 if self._plan.is_trivial else 0
        self._initial = self.arrays()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the client's whole state; later training does not change these arrays."""
        with asked("arrays of the client half"):
            return {name: np.array(array) for name, array in arrays_in(self._client.arrays()).items()}

    @property
    def has_state(self) -> bool:
        """Whether the client holds anything from round to round."""
        return bool(self._initial)

    def take_gpu_peak_bytes(self) -> int:
        """Return the largest memory held on the GPU since the last call, 0 without one."""
        return self._backend.take_gpu_peak_bytes()

    def renew(self, data: ClientData) -> None:
        """Take other samples from now on, as many as there are; net and state stay as they are."""
        self._data = data = self._backend.prepared(self._client_id, data)
        self._told_counts = self._released_counts()
        self.notes = [*data.notes, *self._backend.notes]
        self._digests.clear()
        self.announcement = announce(self._spec, data, self._told_counts, self._backend, self._client.context.net)
        self._take_samples(self._task or 1)

    def samples_digest(self, round: int) -> str:
        """Return the sha256 of the samples that this round trains and tests on, in hexadecimal."""
        task, data = self._plan.task_of(round), self._data
        if task not in self._digests:
            x, y = _samples_in(self._plan.classes(task), data.train_x, data.train_y)
            arrays = {"train_x": x, "train_y": y, "test_x": data.test_x, "test_y": data.test_y}
            self._digests[task] = state_hash(arrays)
        return self._digests[task]

    def load(self, arrays: Mapping[str, np.ndarray] | None, round: int = 0, exchange: int = 0) -> None:
        """Take up a state of `arrays`, or the initial one for `None`; an error names the exchange that it is for."""
        at = f" at the start {self._method.exchange(exchange).at(round)}" if round else ""
        with asked(f"load of the client half{at}"):
            self._client.load(self._initial if arrays is None else arrays)

    def export(self, path: Path, shape: tuple[int, ...]) -> None:
        """Write the model of the finished run, for samples of this shape, as an ONNX file; see `models.onnx_export`.

        Raises:
            ConfigError: there is no net, or a package is missing.
        """
        from models.onnx_export import described, write_model

        self._enter_task(self._plan.num_tasks)
        graph = self._backend.feature_graph(self._client.context.net, shape, str(self._data.train_x.dtype))
        about = described(self._spec, self._method, self._client_id, shape)
        with asked("linear rules of the client half"):
            rules = self._client.linear_rules()
        write_model(path, graph, rules, about)

    @property
    def client(self) -> Client:
        """The method's client half."""
        return self._client

    @property
    def num_bytes(self) -> int:
        """What the samples and the initial state take in memory."""
        data = self._data
        arrays = (data.train_x, data.train_y, data.test_x, data.test_y, *self._initial.values())
        return sum(array.nbytes for array in arrays)

    def count_flops(self) -> int:
        """Return the floating-point operations of one sample's way through the net, 0 without a net."""
        one = np.zeros((1, *self._data.train_x.shape[1:]), self._data.train_x.dtype)
        return self._backend.count_flops(self._client.context.net, self._backend.moved(one))

    def perform(
        self, round: int, exchange: int, base: int, downlink: Payload, on_progress: Progress | None = None
    ) -> Outcome:
        """Take part in one exchange and return what goes up.

        Args:
            round: the round, from 1.
            exchange: its exchange, from 0; the number of exchanges stands for the evaluation after the last round.
            base: the round that made the global state of the downlink, 0 for none.
            downlink: what came.
            on_progress: see `models.steps.Progress`.

        Raises:
            wire.errors.RecordError: the downlink is not what the method expects.
            models.steps.TrainingDivergedError: the loss is not finite.
        """
        attempt = self.take_up(round, exchange, base, downlink)
        self.train(attempt, on_progress)
        return self.hand_over(attempt)

    def take_up(self, round: int, exchange: int, base: int, downlink: Payload) -> Attempt:
        """Do the first part of `perform`: take in what came, and test the global model if that is due."""
        declared, started = self._method.exchange(exchange), time.perf_counter()
        notes = self._enter_task(self._plan.task_of(round))
        self._backend.seed("client", self._client_id, round, exchange)
        with made_by(f"downlink {declared.at(round)}"), asked("dims", RecordError):
            received = declared.downlink.from_payload(downlink, self._known_dims(base))
        with asked(f"receive {declared.at(round)}"):
            self._client.receive(self._method.downlink_name(exchange), received)
        evaluations = []
        if base >= 1 and (self._method.is_evaluation(exchange) or (exchange == 0 and self._is_due(base))):
            evaluations += self._evaluate(base, self._method.global_rules)
        keeps = declared is self._method.exchanges[-1] and self._keeps_features(round)
        candidates = self._client.train_features() if keeps else None
        received_s = time.perf_counter() - started
        self._client.context.release = self._release(round, exchange)
        seed = seeding.derive(self._spec.seed, "client", self._client_id, round, exchange, "training")
        return Attempt(round, exchange, declared, evaluations, notes, received_s, candidates, seed)

    def train(self, attempt: Attempt, on_progress: Progress | None = None) -> None:
        """Do the second part of `perform`: train, if the exchange does."""
        started = time.perf_counter()
        if attempt.declared.trains:
            with asked(f"training {attempt.declared.at(attempt.round)}"):
                self._client.local_train(attempt.declared.name, attempt.seed, on_progress)
        attempt.train_s = time.perf_counter() - started

    def trains(self, exchange: int) -> bool:
        """Say whether this exchange trains a net; the number of exchanges stands for the last evaluation."""
        return self._method.needs_net and self._method.exchange(exchange).trains

    def can_batch(self, exchange: int) -> bool:
        """Say whether it does so in a way that many clients can share."""
        return self.trains(exchange) and self._client.can_batch(self._method.exchanges[exchange].name)

    def join(self, together: Together, attempt: Attempt) -> None:
        """Train with others, in place of `train`: the net is free for the next one after this, until `leave`."""
        with asked(f"training {attempt.declared.at(attempt.round)}"):
            self._client.before_training(attempt.declared.name, attempt.seed)
        together.add(self._client, attempt.seed)

    def leave(self, attempt: Attempt, trained: Trained, train_s: float) -> None:
        """Take up what training together has made of this client, in such a time."""
        self._client.context.net.load_state_dict(trained.state, strict=False)
        with asked(f"training {attempt.declared.at(attempt.round)}"):
            self._client.after_training()
        attempt.train_s = train_s

    def hand_over(self, attempt: Attempt) -> Outcome:
        """Do the last part of `perform`: make the uplink, and test the local model if that is due."""
        if self._method.is_evaluation(attempt.exchange):
            return Outcome(EMPTY, attempt.evaluations, evaluate_s=attempt.evaluate_s, notes=attempt.notes)
        declared, trained = attempt.declared, time.perf_counter()
        with asked(f"uplink {attempt.declared.at(attempt.round)}"):
            record = expect(Record, self._client.uplink(declared.name), f"a Record, {declared.uplink.__name__}")
            uplink = record.to_payload(self._spec.wire.value_dtype, self._client.dims())
        made = time.perf_counter()
        evaluations = attempt.evaluations
        tells_of_itself = not self._spec.privacy.adds_noise
        if declared is self._method.exchanges[-1] and self._is_due(attempt.round) and tells_of_itself:
            evaluations = evaluations + self._evaluate(attempt.round, self._method.rules_after_training)
        return Outcome(
            uplink,
            evaluations,
            train_s=attempt.train_s + made - trained,
            evaluate_s=attempt.evaluate_s + time.perf_counter() - made,
            notes=attempt.notes,
            features={} if attempt.candidates is None else self._kept(attempt.candidates),
        )

    def _released_counts(self) -> np.ndarray:
        """Return the train samples of each class as others may know them: the one word at join."""
        release = self._release("join")
        if release is not None:
            return release.class_counts(self._data.train_y)
        return np.bincount(self._data.train_y, minlength=self._spec.num_classes)

    def _release(self, *keys: str | int) -> Release | None:
        """Return what noises a word of this client, if the run adds noise."""
        if not self._spec.privacy.adds_noise:
            return None
        if not self._secret:
            raise ConfigError(f"client {self._client_id}: expected a secret for the noise of [privacy], got none")
        return Release(self._spec, self._secret, self._client_id, *keys)

    def _evaluate(self, round: int, rules: tuple[str, ...]) -> list[Evaluation]:
        if not rules:
            return []
        task = self._plan.task_of(round)
        seen = self._plan.classes_seen(task)
        self._client.context.num_seen = len(seen)
        x, y = _samples_in(seen, self._data.test_x, self._data.test_y)
        tasks = {number: self._plan.classes(number) for number in self._plan.tasks[:task]}
        moved = self._backend.moved(x)
        with asked(f"test of the model of round {round}"):
            if self._plan.is_trivial:
                counted = evaluate(self._client, moved, y, rules)
            else:
                counted = evaluate_by_task(self._client, moved, y, rules, tasks)
        numbered = {self._counters.index(name): count for name, count in counted.items()}
        return [Evaluation(round, len(y), numbered)]

    def _keeps_features(self, round: int) -> bool:
        return self._spec.privacy.audit and self._method.needs_net and self._plan.ends_task(round)

    def _kept(self, candidates_BD: np.ndarray) -> dict[str, np.ndarray]:
        _, labels = _samples_in(self._client.context.classes, self._data.train_x, self._data.train_y)
        return {"features": self._client.train_features(), "candidates": candidates_BD, "labels": labels}

    def _is_due(self, round: int) -> bool:
        return round % self._spec.evaluation.every == 0 or self._plan.ends_task(round)

    def _enter_task(self, task: int) -> list[str]:
        """Give the client half the samples of this task, if it has those of another one, and say which they are."""
        if task == self._task:
            return []
        self._task = task
        self._take_samples(task)
        classes, context = self._plan.classes(task), self._client.context
        num_earlier = int((self._data.train_y < classes.start).sum())
        return [
            f"task {task} of {self._plan.num_tasks}, classes {classes.start} to {classes.stop - 1}: "
            f"{len(context.train_y)} train samples; {num_earlier} of earlier tasks are left aside"
        ]

    def _take_samples(self, task: int) -> None:
        for name, content in self._samples_of(task).items():
            setattr(self._client.context, name, content)

    def _samples_of(self, task: int) -> dict[str, Any]:
        """Return the part of the context that is a task's own."""
        classes = self._plan.classes(task)
        x, y = _samples_in(classes, self._data.train_x, self._data.train_y)
        counts = np.zeros(self._spec.num_classes, np.int64)
        counts[classes.start : classes.stop] = self._told_counts[classes.start : classes.stop]
        moved = self._backend.moved
        return {"train_x": moved(x), "train_y": moved(y), "class_counts": counts, "classes": classes}

    def _known_dims(self, base: int) -> dict[str, int]:
        """Return the sizes of record symbols that hold for any downlink; a model travels only once there is one."""
        dims = {"K": self._spec.num_classes, "D": self.announcement.feature_dim}
        if base >= 1:
            dims |= {"P": self.announcement.num_parameters, "F": self.announcement.num_buffers, **self._client.dims()}
        return dims


def _samples_in(classes: range, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples of these classes; all of them are not copied."""
    is_in = (y >= classes.start) & (y < classes.stop)
    return (x, y) if is_in.all() else (x[is_in], y[is_in])
