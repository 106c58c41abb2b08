"""The trainer: the client's child process, which holds data and model and runs the method's client half.

    python -I -m edge_client.trainer --pipe FD

Before it hands an uplink to the daemon it has written the state that goes with it, then the uplink: killed at any
moment, it either repeats the task from the same state, which gives the same uplink, or finds the uplink and sends it
again. What it writes waits for space where the disk is full.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from edge_client import commands
from edge_client.config import ClientConfig
from edge_client.consent import check_consent
from edge_client.data_source import open_source
from edge_client.final_model import keep_final
from edge_client.leftovers import prune_runs, run_folder
from edge_client.limits import error_in_words, told_of_lack
from edge_client.local_state import (
    ConstantShelf,
    RoundSamples,
    SampleRecord,
    client_folder,
    lock_folder,
    own_secret,
)
from edge_client.space import Space, TaskAbandonedError
from models.audit import keep_features
from models.checkpoint import CheckpointError, state_hash
from models.client_states import ClientStates
from models.failpoints import reach
from models.methods import find
from models.methods.faults import MethodError, made_by
from models.participant import Outcome, Participant
from models.privacy import run_secret, seed_secret
from models.spec import ConfigError, RunSpec, read_section, read_spec
from wire.disk import advised, lacks_space
from wire.encoding import Frames, Packed, decode, encode, pack, unpack
from wire.errors import EncodeError, RecordError, UnfitArrayError
from wire.exit_codes import ExitCode
from wire.limits import PIPE_BYTES
from wire.messages import Constant, Evaluation, Message, Progress, Ready, Task, Update
from wire.payload import Payload
from wire.sockets.pipe import ChildPipe, given_pipe
from wire.timing import Timing

PROGRESS_EVERY_S = 1.0
"""Progress is reported at most this often."""


def serve(pipe: ChildPipe) -> None:
    """Take part in the run that the first command names, until the daemon closes the pipe; say why if that fails."""
    memory_mib = 0

    def tell(reason: str, code: ExitCode) -> None:
        pipe.send(encode(commands.Failed(commands.fit(reason), code)))

    def fail(reason: str, code: ExitCode = ExitCode.FAILED) -> None:
        lack = told_of_lack(reason, memory_mib)
        tell(lack or reason, ExitCode.FAILED if lack else code)

    try:
        begin, _ = _received(pipe)
        assert isinstance(begin, commands.Begin)
        settings = read_section(ClientConfig, begin.settings, "client.toml")
        memory_mib = settings.limits.memory_mib
        space = Space(pipe)
        lock = space.keep(partial(lock_folder, client_folder(settings)))
        try:
            Trainer(pipe, begin, settings, space).work()
        finally:
            os.close(lock)
    except EOFError:
        return
    except MethodError as error:
        fail(str(error))
        traceback.print_exc()
    except RecordError as error:
        fail(f"the coordinator's downlink does not fit the method: {error}")
    except (UnfitArrayError, CheckpointError) as error:
        fail(str(error))
    except (ConfigError, EncodeError) as error:
        fail(advised(str(error), lacks_space(error)), ExitCode.NO_SPACE if lacks_space(error) else ExitCode.BAD_CONFIG)
    except Exception as error:
        tell(error_in_words(error, memory_mib), ExitCode.FAILED)
        traceback.print_exc()


class Trainer:
    """The client half of one run, with its data and states."""

    def __init__(self, pipe: ChildPipe, begin: commands.Begin, settings: ClientConfig, space: Space) -> None:
        """Build everything for the run and announce it.

        Raises:
            ConfigError: the run is not for this device, or what it needs is not here.
        """
        if begin.folder and begin.folder not in sys.path:
            sys.path.append(begin.folder)
        spec = device_spec(read_spec(begin.spec), settings)
        self._pipe, self._space = pipe, space
        self._run = begin.run
        self._max_message_bytes = begin.max_message_bytes
        self._folder = folder = client_folder(settings)
        states = space.keep(partial(run_folder, folder, spec.run_id))
        prune_runs(folder, settings.client, time.time(), states)
        constants = load_constants(pipe, begin, ConstantShelf(folder), space)
        self._method = method = find(spec.method)
        self._states = ClientStates(states, spec.run_id, len(method.exchanges))
        self._spec, self._constants, self._names = spec, begin.constants, begin.names
        self._record = SampleRecord(states, spec.run_id)
        self._plan, self._round = spec.plan, 0
        self._adds_noise = spec.privacy.adds_noise
        self._source = open_source(spec, settings)
        self._data = self._source.look(self._record.held.files if self._record.held else None)
        secret = self._noise_secret(spec, settings)
        if self._adds_noise:
            self._hold_to_first_start(secret)
        with made_by(f"method {method.name}"):
            self._participant = Participant(spec, method, settings.client.id, self._data, constants, secret=secret)
        self._tell(self._participant.notes)
        self._announce()

    def work(self) -> None:
        """Work on tasks until the daemon closes the pipe, which raises EOFError."""
        while True:
            message, packed = _received(self._pipe)
            if isinstance(message, Task) and packed is not None:
                self._do(message, unpack(packed))

    def _announce(self, lost_round: int = 0) -> None:
        announcement = msgspec.structs.asdict(self._participant.announcement)
        self._pipe.send(encode(Ready(run=self._run, **announcement, lost_round=lost_round)))

    def _tell(self, notes: Sequence[str]) -> None:
        for note in notes:
            self._pipe.send(encode(commands.Note(commands.fit(note))))

    def _do(self, task: Task, downlink: Payload) -> None:
        """Do one task and hand its uplink to the daemon, or the one that was made before a restart."""
        reach("task.taken")
        self._space.begin_task()
        made: Frames | None = self._states.load_uplink(task.round, task.exchange)
        if made is None:
            try:
                made = self._made(task, downlink)
            except TaskAbandonedError:
                return
        self._pipe.send(made)
        reach("uplink.handed")

    def _made(self, task: Task, downlink: Payload) -> Frames:
        """Do one task and return its uplink, which is on disk by then.

        Raises:
            TaskAbandonedError: another command waits.
        """
        started = time.monotonic()
        self._participant.take_gpu_peak_bytes()
        self._take_samples(task.round)
        with made_by(f"method {self._method.name}"):
            state = self._space.keep(partial(self._states.begin, task.round, task.exchange, task.kept))
            self._participant.load(state, task.round, task.exchange)
        if self._participant.has_state and self._states.lack:
            self._tell([self._states.lack])
            self._announce(task.kept)
        restore_s = time.monotonic() - started
        with made_by(f"method {self._method.name}"):
            outcome = self._participant.perform(task.round, task.exchange, task.base, downlink, self._progress(task))
            return self._finish(task, outcome, restore_s)

    def _hold_to_first_start(self, secret: bytes) -> None:
        """Have all that noised words follow from as the run's first start had it: others would be words not counted.

        Raises:
            ConfigError: something has changed; the coordinator hears the text, so it does not say what.
        """
        data, settings = self._data, msgspec.json.encode(self._spec)
        texts = {"settings": np.frombuffer(settings, np.uint8), "secret": np.frombuffer(secret, np.uint8)}
        digest = state_hash({"x": data.train_x, "y": data.train_y, **texts})
        if self._record.held is None:
            self._space.keep(partial(self._record.put, RoundSamples(0, digest, self._source.files)))
        elif self._record.held.digest != digest:
            self._tell(data.notes)
            raise ConfigError(
                "[privacy] noise_multiplier: expected the train samples, settings and noise.secret that this device "
                "began the run with, got others: put them back, or wait for the next run"
            )

    def _take_samples(self, round: int) -> None:
        """Have the samples that are there when a round begins; one that is repeated has those it was begun with.

        Samples without files stay the same for a whole task: its last round stands on record for all of it. With noise
        all do for the whole run.
        """
        on_record = round if self._source.files is not None else self._plan.last_round(self._plan.task_of(round))
        if self._adds_noise or on_record == self._round:
            return
        begun = self._record.held
        if begun is None or begun.round != on_record:
            self._look_anew()
            digest = self._participant.samples_digest(round)
            begun = RoundSamples(on_record, digest, self._source.files)
            self._space.keep(partial(self._record.put, begun))
        elif begun.digest != (digest := self._participant.samples_digest(round)):
            told = f"expected those of digest {begun.digest[:12]}, got {digest[:12]}"
            self._tell([f"round {round} goes on with other samples than it was begun with: {told}"])
        self._round = on_record

    def _look_anew(self) -> None:
        """Take what has come since the last look, and leave what has gone."""
        if (data := self._source.look()) is not self._data:
            self._data = data
            self._participant.renew(data)
            self._tell(self._participant.notes)
            self._announce()

    def _finish(self, task: Task, outcome: Outcome, restore_s: float) -> Frames:
        """Checkpoint the state, then the uplink, and return the uplink's frames with how long all took behind them."""
        reach("task.performed")
        self._tell(outcome.notes)
        if outcome.features:
            self._space.keep(partial(keep_features, self._folder, task.round, outcome.features))
        started = time.monotonic()
        evaluations = [Evaluation(*evaluation) for evaluation in outcome.evaluations]
        update = Update(self._run, task.round, task.exchange, evaluations)
        with made_by(f"uplink {self._method.exchange(task.exchange).at(task.round)}"):
            packed = pack(outcome.uplink)
            frames = encode(update, packed, self._max_message_bytes)
        encoded = time.monotonic()
        arrays = self._participant.arrays()
        if self._method.is_evaluation(task.exchange):
            self._space.keep(partial(keep_final, self._folder, self._spec, self._constants, arrays, self._names))
        if arrays:  # without any state a repeated task gives the same uplink anyway
            self._space.keep(partial(self._states.save, task.round, task.exchange, arrays))
            reach("state.saved")
            self._space.keep(partial(self._states.save_uplink, task.round, task.exchange, frames))
            reach("uplink.saved")
        checkpoint_s = restore_s + time.monotonic() - encoded
        timing = Timing.of_seconds(outcome.train_s, outcome.evaluate_s, checkpoint_s, encoded - started)
        timing = timing._replace(gpu_peak_bytes=self._participant.take_gpu_peak_bytes())
        return [*frames, timing.frame()]

    def _noise_secret(self, spec: RunSpec, settings: ClientConfig) -> bytes:
        """Return what the noise of this run follows from, if it adds any."""
        if not spec.privacy.adds_noise:
            return b""
        if settings.client.noise == "seed":
            note = (
                "[client] noise = 'seed': the run's noise follows from its seed, and hides nothing from who knows that"
            )
            self._tell([note])
            return seed_secret(spec.seed)
        return run_secret(self._space.keep(partial(own_secret, self._folder)), spec.run_id)

    def _progress(self, task: Task) -> Callable[[int, int], None]:
        """Return a callback that reports progress now and then, and abandons the task when another command waits."""
        reported = time.monotonic()

        def on_progress(done: int, total: int) -> None:
            nonlocal reported
            if self._pipe.has_message():
                raise TaskAbandonedError
            if time.monotonic() - reported >= PROGRESS_EVERY_S:
                reported = time.monotonic()
                told = (0, 1) if self._adds_noise else (done, total)  # how many steps there are tells of the samples
                self._pipe.send(encode(Progress(self._run, task.round, task.exchange, *told)))

        return on_progress


def load_constants(
    pipe: ChildPipe, begin: commands.Begin, shelf: ConstantShelf, space: Space
) -> dict[str, Mapping[str, np.ndarray]]:
    """Return the run's constants by name: from the shelf where it holds them, else as the coordinator sends them.

    The daemon is told of those that are not there: it asks for what its hello listed, which is gone or broken.

    Raises:
        ConfigError: what the coordinator lists cannot be run constants.
        CheckpointError: one is gone in the midst of a task.
    """
    lacking = set(shelf.missing(begin.constants))
    if lacking:
        pipe.send(encode(commands.Lacks(sorted(lacking))))
    while lacking:
        constant, packed = _received(pipe)
        if not isinstance(constant, Constant) or packed is None:
            expected = f"expected {len(begin.constants)} run constants in its folder, {len(lacking)} are gone"
            raise CheckpointError(f"[client] dir: {expected}; a client that is started again is sent them again")
        space.keep(partial(shelf.put, constant.name, constant.digest, unpack(packed).arrays))
        lacking.discard(constant.digest)
    return shelf.named(begin.constants, begin.names)


def _received(pipe: ChildPipe) -> tuple[Message, Packed | None]:
    return decode(pipe.receive(), commands.COMMANDS, PIPE_BYTES)


def device_spec(spec: RunSpec, settings: ClientConfig) -> RunSpec:
    """Return the run as this device takes part in it: with its own net, device and threads where it names them.

    Raises:
        ConfigError: the run wants what this device does not allow, or a net that does not fit the run.
    """
    net = settings.model.name or spec.model.name_for(settings.data.index)
    check_consent(spec, settings, net)
    runs_own = spec.model.name_for(settings.data.index)
    if net != runs_own and find(spec.method).shares_model:
        raise ConfigError(f"[model] name = {net!r}: {spec.method} averages whole nets, and the run's is {runs_own!r}")
    model = msgspec.structs.replace(
        spec.model,
        name=net,
        feature_dim=settings.model.feature_dim or spec.model.feature_dim,
        path=settings.model.path or spec.model.path,
        provider=settings.model.provider or spec.model.provider,
        provider_fallback=settings.model.provider_fallback or spec.model.provider_fallback,
    )
    find(spec.method).check_net(net)
    training = msgspec.structs.replace(
        spec.training,
        threads=settings.training.threads or spec.training.threads,
        device=spec.training.device if settings.training.device == "auto" else settings.training.device,
    )
    return msgspec.structs.replace(spec, model=model, training=training)


def main() -> None:
    """Run the trainer on the pipe that the daemon gave."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # they mean the daemon; some senders reach all of its processes
        signal.signal(number, signal.SIG_IGN)
    serve(given_pipe())


if __name__ == "__main__":
    main()
