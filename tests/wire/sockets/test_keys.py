"""Keys as text and in files."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from wire.sockets.keys import KeyFileError, is_key, keep_secret, make_pair, pair_of, read_secret, write_secret


def test_a_pair_follows_from_its_secret_key_and_no_two_are_alike() -> None:
    first, second = make_pair(), make_pair()
    assert len({*first, *second}) == 4
    assert all(map(is_key, (*first, *second)))
    assert pair_of(first.secret) == first


def test_a_secret_key_is_never_shown() -> None:
    pair = make_pair()
    assert pair.secret not in f"{pair} {pair!r} {[pair]}"


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64, "1" * 64 + "\n"])
def test_other_texts_are_no_keys(text: str) -> None:
    assert not is_key(text)


def test_a_secret_file_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    path, pair = tmp_path / "new" / "a.secret", make_pair()
    write_secret(path, pair.secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(path) == keep_secret(path) == pair
    with pytest.raises(KeyFileError, match=r"a\.secret: expected to make a key file, got File exists"):
        write_secret(path, make_pair().secret)
    assert read_secret(path) == pair


def test_a_missing_file_is_made_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.secret"
    with pytest.raises(FileNotFoundError):
        read_secret(path)
    assert keep_secret(path) == read_secret(path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o700 | 0o010])
def test_a_file_that_others_may_use_is_refused_unless_that_is_allowed(tmp_path: Path, mode: int) -> None:
    path, pair = tmp_path / "a.secret", make_pair()
    write_secret(path, pair.secret)
    os.chmod(path, mode)
    with pytest.raises(KeyFileError, match=f"got mode {mode:o}; chmod 600 .*, or allow it with --allow-open-keys"):
        read_secret(path)
    assert read_secret(path, allow_open=True) == pair


def test_a_file_with_something_else_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.secret"
    path.touch(0o600)
    path.write_text("pass word")
    with pytest.raises(KeyFileError, match="expected a secret key, 64 hexadecimal") as refused:
        read_secret(path)
    assert "pass word" not in str(refused.value)


@pytest.mark.parametrize(("content", "found"), [("", "an empty file"), ("ab", "something else")])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "a.secret"
    path.touch(0o600)
    path.write_text(content)
    told = rf"not all of them 0, got {found}; put it back from a backup, or remove the file and run `keys"
    with pytest.raises(KeyFileError, match=told):
        keep_secret(path)


def test_a_key_file_that_cannot_be_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.secret"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(KeyFileError, match=r"a\.secret: expected to make a key file, got No space left on device"):
            keep_secret(path)
    assert not list(tmp_path.iterdir())
    assert keep_secret(path) == read_secret(path)
