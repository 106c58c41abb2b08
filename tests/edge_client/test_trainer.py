"""What a device makes of a run before it loads anything."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import numpy as np
import pytest

from coordinator.config import load as load_run
from edge_client import commands, trainer
from edge_client.config import load as load_client
from edge_client.data_source import open_source
from edge_client.local_state import ConstantShelf, client_folder
from edge_client.space import Space
from edge_client.trainer import device_spec, load_constants, serve
from models import checkpoint
from models.checkpoint import CheckpointError, state_hash
from models.spec import ConfigError, RunSpec
from tests.edge_client.session_driver import task
from tests.pipes import HeldPipe
from wire.encoding import Frames, encode, pack
from wire.exit_codes import ExitCode
from wire.messages import Constant, Message, Ready, Update
from wire.payload import EMPTY, Payload, Tensor

OWN = ("client.id=a", "data.index=0")


def spec_of(*settings: str) -> RunSpec:
    return load_run(None, settings).spec("run", ["a", "b"])


def test_a_device_may_have_a_net_of_its_own() -> None:
    spec = spec_of("model.name=cnn")
    assert device_spec(spec, load_client(None, OWN)).model.name == "cnn"
    assert device_spec(spec, load_client(None, [*OWN, "model.name=mlp"])).model.name == "mlp"


def test_but_not_where_whole_nets_are_averaged() -> None:
    with pytest.raises(ConfigError, match="'mlp': fedavg averages whole nets, and the run's is 'cnn'"):
        device_spec(spec_of("method.name=fedavg"), load_client(None, [*OWN, "model.name=mlp"]))


def test_code_that_the_device_does_not_allow_is_never_imported() -> None:
    spec = spec_of("model.name=no_such_module:Net")
    with pytest.raises(ConfigError, match=r"the run wants 'no_such_module:Net', which \[client\] plugins = \[\]"):
        device_spec(spec, load_client(None, OWN))


def test_files_that_the_device_does_not_allow_are_refused_before_anything_is_read() -> None:
    with pytest.raises(
        ConfigError, match=r"\[data\] root = '/home', which \[client\] paths = \[\] does not allow; name it"
    ):
        device_spec(spec_of("data.dataset=images", "data.root=/home"), load_client(None, OWN))


def test_nothing_is_held_out_of_a_devices_own_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((10, 3)), y=np.arange(10) % 2)
    client = load_client(None, ["client.id=a", "data.source=npz", f"data.root={tmp_path}/mine.npz"])
    data = open_source(spec_of("data.public_per_class=3"), client).look()
    assert len(data.train_y) + len(data.test_y) == 10


MASKS = {"first": np.arange(3, dtype=np.float32), "second": np.ones(2, np.float32)}
DIGESTS = [state_hash({name: array}) for name, array in MASKS.items()]


def sent(name: str, digest: str) -> Frames:
    """Return a run constant as a daemon passes it on."""
    payload = Payload({name: Tensor("f32", MASKS[name])})
    return encode(Constant(1, name, digest), pack(payload))


def constants(
    pipe: HeldPipe, folder: Path, digests: Sequence[str] = DIGESTS, names: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return the run constants of a trainer that is sent what is in the pipe, and no more."""
    begin = commands.Begin(1, {}, list(digests), 1 << 20, {}, "", list(names))
    return load_constants(cast("Any", pipe), begin, ConstantShelf(folder), Space(cast("Any", pipe)))


def pipe(*messages: Frames) -> HeldPipe:
    return HeldPipe(commands.COMMANDS, *messages)


def test_a_trainer_that_is_started_again_has_what_its_predecessor_was_sent(tmp_path: Path) -> None:
    first, second = (sent(name, digest) for name, digest in zip(MASKS, DIGESTS, strict=True))
    with pytest.raises(EOFError):  # killed when it has the first
        constants(pipe(first), tmp_path)
    made = constants(pipe(first, second), tmp_path)
    assert constants(pipe(), tmp_path).keys() == made.keys() == MASKS.keys()


def test_the_daemon_is_told_of_run_constants_that_are_not_here_or_broken_and_hands_them_over(tmp_path: Path) -> None:
    messages = [sent(name, digest) for name, digest in zip(MASKS, DIGESTS, strict=True)]
    first, again, whole = pipe(*messages), pipe(messages[1]), pipe()
    constants(first, tmp_path)
    next((tmp_path / "constants").glob(f"{DIGESTS[1]}*")).write_bytes(b"broken")
    assert constants(again, tmp_path).keys() == constants(whole, tmp_path).keys() == MASKS.keys()
    assert [each.sent for each in (first, again, whole)] == [
        [commands.Lacks(sorted(DIGESTS))],
        [commands.Lacks([DIGESTS[1]])],
        [],
    ]


def test_run_constants_that_are_gone_in_the_midst_of_a_task_are_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"\[client\] dir: expected 2 run constants in its folder, 2 are gone; a"):
        constants(pipe(encode(task(), pack(EMPTY))), tmp_path)


def test_run_constants_have_the_names_of_the_run_also_where_two_have_the_same_arrays(tmp_path: Path) -> None:
    digest = DIGESTS[0]
    assert constants(pipe(sent("first", digest)), tmp_path, [digest]).keys() == {"first"}
    assert constants(pipe(), tmp_path, [digest], ["renamed"]).keys() == {"renamed"}
    twice = constants(pipe(), tmp_path, [digest, digest], ["one", "other"])
    assert {name: list(arrays) for name, arrays in twice.items()} == {"one": ["first"], "other": ["first"]}
    with pytest.raises(ConfigError, match="the coordinator's run: expected the names of 1 run constants, got 2"):
        constants(pipe(), tmp_path, [digest], ["one", "other"])


def test_a_coordinator_that_asks_for_a_file_hears_the_same_whether_it_is_there_or_not(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.safetensors"
    theirs.write_bytes(b"weights of somebody else")
    told = []
    for name in ("theirs", "nothing"):
        settings = load_client(None, ["client.id=a", f"client.dir={tmp_path}", "data.index=0"])
        (client_folder(settings) / "constants").mkdir(parents=True, exist_ok=True)
        spec = msgspec.to_builtins(spec_of("method.name=local_only"))
        begin = commands.Begin(1, spec, [f"../../{name}"], 1 << 20, msgspec.to_builtins(settings), "")
        told.append(refusal(served(encode(begin))).replace(name, ""))
    assert told[0] == told[1]
    assert theirs.exists()


NOISY = ("method.name=tests.models.frozen_method:METHOD", "privacy.noise_multiplier=4", "data.test_fraction=0")


def started(folder: Path, spec: RunSpec, *own: str, tasks: Sequence[Frames] = ()) -> list[Message]:
    """Return what a trainer says that is started for this run on a device, has these tasks, and is told to leave."""
    plugins = f'client.plugins=["{spec.method}"]'
    settings = load_client(None, ["client.id=a", f"client.dir={folder}", plugins, *own])
    begin = commands.Begin(1, msgspec.to_builtins(spec), [], 1 << 20, msgspec.to_builtins(settings), "")
    return served(encode(begin), *tasks)


def served(*messages: Frames) -> list[Message]:
    """Return what a trainer says that is sent these messages, and then is told to leave."""
    held = pipe(*messages)
    serve(cast("Any", held))
    return held.sent


def counts(told: list[Message]) -> list[list[int]]:
    return [message.class_counts for message in told if isinstance(message, Ready)]


def save(path: Path, num: int) -> str:
    np.savez(path, x=np.zeros((num, 3)), y=np.arange(num) % 2)
    return f"data.root={path}"


def refusal(told: list[Message]) -> str:
    assert counts(told) == []
    assert isinstance(told[-1], commands.Failed)
    return told[-1].reason


def test_with_noise_a_run_has_the_samples_of_its_first_start(tmp_path: Path) -> None:
    spec, own = spec_of(*NOISY), ("data.source=npz", save(tmp_path / "mine.npz", 40))
    (announced,) = counts(started(tmp_path, spec, *own))
    assert counts(started(tmp_path, spec, *own)) == [announced]
    save(tmp_path / "mine.npz", 41)
    assert refusal(started(tmp_path, spec, *own)).startswith(
        "[privacy] noise_multiplier: expected the train samples, settings and noise.secret that this device began"
    )
    assert len(counts(started(tmp_path, msgspec.structs.replace(spec, run_id="another"), *own))) == 1
    save(tmp_path / "mine.npz", 40)
    assert counts(started(tmp_path, spec, *own)) == [announced]


def test_with_noise_nothing_else_may_change_that_the_noise_follows_from(tmp_path: Path) -> None:
    spec, own = spec_of(*NOISY), ("data.source=npz", save(tmp_path / "mine.npz", 40))
    (announced,) = counts(started(tmp_path, spec, *own))
    assert "got others" in refusal(started(tmp_path, spec, *own, "training.threads=2"))
    assert "got others" in refusal(started(tmp_path, spec, *own, "client.noise=seed"))
    assert counts(started(tmp_path, spec, *own)) == [announced]
    (tmp_path / "a" / "noise.secret").unlink()
    assert "got others" in refusal(started(tmp_path, spec, *own))


def test_with_noise_new_images_wait_for_the_next_run_and_none_may_be_missing(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for value in range(20):
        (tmp_path / "images" / "a").mkdir(parents=True, exist_ok=True)
        image.new("L", (2, 2), value).save(tmp_path / "images" / "a" / f"{value}.png")
    spec, own = spec_of(*NOISY), ("data.source=folder", f"data.root={tmp_path / 'images'}")
    (announced,) = counts(started(tmp_path, spec, *own))
    image.new("L", (2, 2), 99).save(tmp_path / "images" / "a" / "99.png")
    assert counts(started(tmp_path, spec, *own)) == [announced]
    (tmp_path / "images" / "a" / "7.png").unlink()
    *notes, _ = told = started(tmp_path, spec, *own)
    assert "a/7.png" not in refusal(told)
    assert any("begun with are gone and are left out: a/7.png" in str(note) for note in notes)


def test_a_value_that_cannot_travel_is_the_methods_fault_and_no_settings(tmp_path: Path) -> None:
    spec = spec_of("method.name=tests.models.faulty_method:METHOD", "method.fault=uplink")
    mean = Tensor("f32", np.ones(spec.model.feature_dim, np.float32))
    own = ("data.source=npz", save(tmp_path / "mine.npz", 10))
    told = started(tmp_path, spec, *own, tasks=[encode(task(), pack(Payload({"mean": mean})))])
    reason = "method faulty: uplink of round 1, exchange 'mean': array 'mean': codec f32 cannot hold nan at [0]"
    assert told[-1] == commands.Failed(reason, ExitCode.FAILED)


@pytest.mark.parametrize(("limit", "code"), [("limits.memory_mib=200", 4), ("limits.memory_mib=0", 2)])
def test_what_cannot_be_loaded_for_want_of_memory_is_told_with_the_limit(
    tmp_path: Path, limit: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = "the net needs torch, which cannot be loaded: _C.so: failed to map segment from shared object"

    def load(*arguments: object) -> NoReturn:
        raise ConfigError(cause)

    monkeypatch.setattr("edge_client.trainer.open_source", load)
    spec = spec_of("method.name=tests.models.faulty_method:METHOD")
    lack = "ran out of [limits] memory_mib = 200: " if code == 4 else ""
    assert started(tmp_path, spec, "data.index=0", limit) == [commands.Failed(f"{lack}{cause}", code)]


@pytest.mark.parametrize(
    ("number", "advice", "code"), [(errno.EDQUOT, "; free some disk space", 6), (errno.EACCES, "", 2)]
)
def test_data_that_there_is_no_room_for_may_be_fetched_again(
    tmp_path: Path, number: int, advice: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*arguments: object) -> NoReturn:
        raise ConfigError("the download failed") from OSError(number, os.strerror(number))

    monkeypatch.setattr("edge_client.trainer.open_source", fetch)
    spec = spec_of("method.name=tests.models.faulty_method:METHOD")
    assert started(tmp_path, spec, "data.index=0") == [commands.Failed(f"the download failed{advice}", code)]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the disk full for so many writes, counted down."""
    left, write = [2], checkpoint.write

    def write_if_there_is_space(path: Path, *content: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, *content)

    monkeypatch.setattr(checkpoint, "write", write_if_there_is_space)
    monkeypatch.setattr("edge_client.space.SPACE_AGAIN_S", 0.001)
    return left


def mean_task(spec: RunSpec, round: int) -> Frames:
    mean = Tensor("f32", np.ones(spec.model.feature_dim, np.float32))
    return encode(task(round), pack(Payload({"mean": mean})))


def test_a_task_waits_for_space_on_the_disk(tmp_path: Path, full: list[int]) -> None:
    spec = spec_of("method.name=tests.models.faulty_method:METHOD")
    own = ("data.source=npz", save(tmp_path / "mine.npz", 10))
    _, note, *waits, update = started(tmp_path, spec, *own, tasks=[mean_task(spec, 1)])
    assert waits == [commands.Waits("space on its disk (No space left on device)"), commands.Waits("")]
    assert isinstance(note, commands.Note)
    assert re.fullmatch(r"No space left on device: .*round_samples.safetensors; this task waits .*", note.text)
    assert isinstance(update, Update)
    assert full == [0]


def test_but_no_longer_than_until_the_next_one(tmp_path: Path, full: list[int]) -> None:
    spec = spec_of("method.name=tests.models.faulty_method:METHOD")
    own = ("data.source=npz", save(tmp_path / "mine.npz", 10))
    full[0] = 1
    tasks = [mean_task(spec, 1), mean_task(spec, 2)]
    told = started(tmp_path, spec, *own, tasks=tasks)
    assert [message.round for message in told if isinstance(message, Update)] == [2]
    assert [bool(message.waits_for) for message in told if isinstance(message, commands.Waits)] == [True, False]


WAITED = [commands.Waits("space on its disk (No space left on device)"), commands.Waits("")]


def test_run_constants_wait_for_space_whatever_else_is_in_the_pipe(tmp_path: Path, full: list[int]) -> None:
    held = pipe(*(sent(name, digest) for name, digest in zip(MASKS, DIGESTS, strict=True)))
    assert constants(held, tmp_path).keys() == MASKS.keys()
    _, note, *waits = held.sent
    assert waits == WAITED
    assert isinstance(note, commands.Note)
    assert re.fullmatch(r"No space left on device: .*safetensors; the run waits for space there", note.text)
    assert full == [0]


def test_what_a_run_with_noise_is_held_to_waits_for_space(tmp_path: Path, full: list[int]) -> None:
    told = started(tmp_path, spec_of(*NOISY), "data.source=npz", save(tmp_path / "mine.npz", 40))
    assert [message for message in told if isinstance(message, commands.Waits)] == WAITED
    assert len(counts(told)) == 1


@pytest.mark.parametrize("make", ["run_folder", "own_secret", "lock_folder"])
def test_so_does_all_else_that_prepares_a_run(
    tmp_path: Path, full: list[int], make: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full[0], made = 0, getattr(trainer, make)
    failures = [OSError(errno.EDQUOT, "Disk quota exceeded", str(tmp_path))]

    def make_if_there_is_space(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return made(*given)

    monkeypatch.setattr(trainer, make, make_if_there_is_space)
    told = started(tmp_path, spec_of(*NOISY), "data.source=npz", save(tmp_path / "mine.npz", 40))
    assert [bool(message.waits_for) for message in told if isinstance(message, commands.Waits)] == [True, False]
    assert len(counts(told)) == 1


def test_texts_for_people_travel_however_long_they_are_and_whatever_a_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:05d}" + "猫" * 100 for number in range(1000)]
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((1001, 3)), y=np.arange(1001), classes=np.array(["a", *names]))
    spec = spec_of("method.name=tests.models.faulty_method:METHOD", "data.test_fraction=0")
    own = ("data.source=npz", f"data.root={path}", "data.unknown_labels=skip")
    told = started(tmp_path, spec, *own)
    assert counts(told) == [[1, 0]]
    (note,) = (message.text for message in told if isinstance(message, commands.Note))
    assert note.startswith("1000 samples of classes that are not in the label map are left out: ['00000猫")
    assert note.endswith("'] and 980 more")
    for error in (ConfigError("\udce9" * 100_000), OSError(errno.EIO, "Input/output error", "\udce9.png")):

        def fail(*given: object, error: Exception = error) -> NoReturn:
            raise error

        monkeypatch.setattr(trainer, "open_source", fail)
        assert "\\udce9" in refusal(started(tmp_path, spec, *own))
