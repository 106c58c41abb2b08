"""Files that are made once."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from wire.sockets.new_file import write_new


def _fail_with(number: int) -> object:
    def fail(*arguments: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_new_file_is_its_owners_alone_and_alone_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.secret"
    write_new(path, b"content")
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_is_there_stays(tmp_path: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_links:
        monkeypatch.setattr("os.link", _fail_with(errno.EPERM))
    path = tmp_path / "a.secret"
    write_new(path, b"first")
    with pytest.raises(FileExistsError):
        write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_and_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.secret"
    with monkeypatch.context() as full:
        full.setattr("os.fsync", _fail_with(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left") as failed:
            write_new(path, b"content")
    assert failed.value.filename == str(path)
    assert not list(tmp_path.iterdir())
    write_new(path, b"content")
    assert path.read_bytes() == b"content"


def test_the_folder_is_on_disk_with_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    write_new(tmp_path / "a.secret", b"content")
    draft, folder = synced
    assert Path(draft).parent == tmp_path
    assert folder == str(tmp_path)


def test_a_draft_that_a_crash_has_left_goes_and_one_at_work_stays(tmp_path: Path) -> None:
    left, at_work, other = (tmp_path / name for name in (".a.secret.1.draft", ".a.secret.2.draft", ".b.secret.1.draft"))
    for draft in (left, at_work, other):
        draft.touch()
    for draft in (left, other):
        os.utime(draft, (0, 0))
    write_new(tmp_path / "a.secret", b"content")
    assert sorted(tmp_path.iterdir()) == [at_work, other, tmp_path / "a.secret"]
