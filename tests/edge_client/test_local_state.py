"""What a client finds on its disk: its folder and the run constants in it."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_client.config import load
from edge_client.local_state import (
    Acquaintance,
    ConstantShelf,
    RoundSamples,
    SampleFile,
    SampleRecord,
    client_folder,
    held_digests,
    lock_folder,
    own_secret,
)
from models.checkpoint import read, state_hash
from models.spec import ConfigError

MASKS = {"kept": np.array([[0, 2], [1, 3]], np.int64)}
DIGEST = state_hash(MASKS)


def test_each_client_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(None, ["client.id=device-3", "data.index=0", f'client.dir="{tmp_path}"'])
    assert client_folder(config) == tmp_path / "device-3"
    monkeypatch.setenv("HOME", str(tmp_path))
    config = load(None, ["client.id=device-3", "data.index=0", 'client.dir="~/states"'])
    assert client_folder(config) == tmp_path / "states" / "device-3"


def test_a_new_client_holds_nothing(tmp_path: Path) -> None:
    assert held_digests(tmp_path / "nowhere") == []
    assert ConstantShelf(tmp_path / "nowhere").missing([DIGEST]) == [DIGEST]
    assert list(tmp_path.iterdir()) == []


def test_a_constant_comes_back_as_it_was_put(tmp_path: Path) -> None:
    shelf = ConstantShelf(tmp_path / "device")
    shelf.put("masks", DIGEST, MASKS)
    name, arrays = ConstantShelf(tmp_path / "device").get(DIGEST)
    assert (name, list(arrays)) == ("masks", ["kept"])
    np.testing.assert_array_equal(arrays["kept"], MASKS["kept"], strict=True)
    assert held_digests(tmp_path / "device") == [DIGEST]


def test_only_what_is_not_here_is_missing_in_the_order_asked(tmp_path: Path) -> None:
    shelf = ConstantShelf(tmp_path)
    shelf.put("masks", DIGEST, MASKS)
    assert shelf.missing(["f" * 64, DIGEST, "0" * 64]) == ["f" * 64, "0" * 64]


def test_what_was_looked_at_is_not_read_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ConstantShelf(tmp_path)
    shelf.put("masks", DIGEST, MASKS)
    num_read = 0

    def counted(path: Path) -> Any:
        nonlocal num_read
        num_read += 1
        return read(path)

    monkeypatch.setattr("models.checkpoint.read", counted)
    assert shelf.missing([DIGEST]) == []
    np.testing.assert_array_equal(shelf.named([DIGEST], ["kept"])["kept"]["kept"], MASKS["kept"], strict=True)
    assert num_read == 1


def test_arrays_with_another_digest_are_not_kept(tmp_path: Path) -> None:
    shelf = ConstantShelf(tmp_path)
    with pytest.raises(ValueError, match=f"run constant 'masks': expected digest {'0' * 64}, got {DIGEST}"):
        shelf.put("masks", "0" * 64, MASKS)
    assert held_digests(tmp_path) == []


def test_unfinished_and_other_files_are_not_held(tmp_path: Path) -> None:
    shelf = ConstantShelf(tmp_path)
    shelf.put("masks", DIGEST, MASKS)
    for name in (f"{'1' * 64}.safetensors.tmp", "notes.txt", f"{'g' * 64}.safetensors", f"{'1' * 63}.safetensors"):
        (tmp_path / "constants" / name).write_bytes(b"")
    assert held_digests(tmp_path) == [DIGEST]


def test_a_constant_that_is_not_here_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{DIGEST}.*keep_days.*is sent it by the next run that needs it"):
        ConstantShelf(tmp_path).get(DIGEST)


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    first = lock_folder(tmp_path / "state")
    with pytest.raises(ConfigError, match=r"\[client\] dir: .*state is in use by another client of this id"):
        lock_folder(tmp_path / "state", wait_s=0.0)
    os.close(first)
    os.close(lock_folder(tmp_path / "state", wait_s=0.0))


def test_who_comes_next_waits_for_a_process_that_leaves(tmp_path: Path) -> None:
    leaving = lock_folder(tmp_path)
    threading.Timer(0.1, os.close, [leaving]).start()
    os.close(lock_folder(tmp_path))


def test_a_client_knows_the_coordinator_that_has_let_it_in(tmp_path: Path) -> None:
    key, other = "a" * 64, "b" * 64
    assert not Acquaintance(tmp_path, key).was_let_in
    Acquaintance(tmp_path, key).let_in()
    assert (Acquaintance(tmp_path, key).was_let_in, Acquaintance(tmp_path, other).was_let_in) == (True, False)


def test_without_keys_there_is_nobody_to_know(tmp_path: Path) -> None:
    Acquaintance(tmp_path, "").let_in()
    assert not list(tmp_path.iterdir())
    assert not Acquaintance(tmp_path / "read-only", "c").was_let_in


def test_a_client_makes_its_secret_once_and_for_itself(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    secret = own_secret(tmp_path)
    assert own_secret(tmp_path) == secret
    assert len(secret) == 32
    assert (tmp_path / "noise.secret").stat().st_mode & 0o777 == 0o600
    assert own_secret(tmp_path / "other") != secret


def test_a_secret_is_on_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    own_secret(tmp_path)
    assert synced[-1] == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["noise.secret"]


def test_a_secret_that_lost_a_part_is_refused(tmp_path: Path) -> None:
    own_secret(tmp_path)
    (tmp_path / "noise.secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"noise\.secret: expected 32 bytes, got 5"):
        own_secret(tmp_path)


def test_a_secret_that_others_may_use_is_refused(tmp_path: Path) -> None:
    own_secret(tmp_path)
    (tmp_path / "noise.secret").chmod(0o644)
    with pytest.raises(ConfigError, match=r"noise\.secret: expected a file that its owner alone may use, got mode 644"):
        own_secret(tmp_path)


def test_a_broken_constant_is_removed_and_so_asked_for_again(tmp_path: Path) -> None:
    arrays = {"masks": np.ones(3, np.float32)}
    shelf, digest = ConstantShelf(tmp_path), state_hash(arrays)
    shelf.put("masks", digest, arrays)
    assert held_digests(tmp_path) == [digest]
    next((tmp_path / "constants").iterdir()).write_bytes(b"broken")
    with pytest.raises(ConfigError, match="it is removed; a client that is started again is sent it"):
        shelf.get(digest)
    assert held_digests(tmp_path) == []


@pytest.mark.parametrize("digest", ["{folder}/theirs", "../../theirs", "theirs", f"{DIGEST}\n", DIGEST.upper(), ""])
def test_what_is_no_digest_never_becomes_a_path(tmp_path: Path, digest: str) -> None:
    shelf, theirs = ConstantShelf(tmp_path / "device"), tmp_path / "theirs.safetensors"
    shelf.put("masks", DIGEST, MASKS)
    theirs.write_bytes(b"weights of somebody else")
    for ask in (lambda given: shelf.missing([given]), shelf.get, lambda given: shelf.named([given], [])):
        with pytest.raises(
            ConfigError, match=r"expected 64 hexadecimal digits, .* as the digest of a run constant, got"
        ):
            ask(digest.format(folder=tmp_path))
    assert theirs.read_bytes() == b"weights of somebody else"


def test_the_samples_of_a_round_are_on_record_for_its_run_alone(tmp_path: Path) -> None:
    assert SampleRecord(tmp_path, "run-7").held is None
    record = SampleRecord(tmp_path, "run-7")
    samples = RoundSamples(3, "ab" * 32, [SampleFile("猫", "cd" * 32, "猫/1.png")])
    record.put(samples)
    assert (record.held, SampleRecord(tmp_path, "run-7").held) == (samples, samples)
    assert SampleRecord(tmp_path, "run-8").held is None
    record.put(RoundSamples(4, "ab" * 32, None))
    assert SampleRecord(tmp_path, "run-7").held == RoundSamples(4, "ab" * 32, None)
