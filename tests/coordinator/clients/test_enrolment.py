"""The enrolment list: whose key counts when, and a file that changes under a coordinator."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from coordinator.clients.enrolment import Enrolment, Entry, Verdict, expires_at, read_entries, write_entries
from models.spec import ConfigError

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "clients.toml"


def test_an_enrolled_key_is_its_clients_and_any_other_nobodys(path: Path) -> None:
    write_entries(path, {"one": Entry(A)})
    enrolment = Enrolment(path)
    assert enrolment.judge(A) == Verdict("one")
    assert enrolment.judge(B) == Verdict("", "not_enrolled", "key bbbbbbbbbbbb... is not enrolled")


def test_a_list_without_a_file_never_changes() -> None:
    assert Enrolment.of({"one": A}).judge(A) == Verdict("one")
    assert Enrolment.of({"one": A}).judge(B).code == "not_enrolled"


def test_no_file_is_no_list(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"clients\.toml: expected the enrolment list, which is gone; put it back"):
        Enrolment(path)


def test_a_change_counts_at_once(path: Path) -> None:
    write_entries(path, {"one": Entry(A), "two": Entry(B)})
    enrolment = Enrolment(path)
    assert enrolment.judge(B) == Verdict("two")
    write_entries(path, {"one": Entry(C), "two": Entry(B, revoked=True)})
    assert enrolment.judge(A).code == "not_enrolled"
    assert enrolment.judge(C) == Verdict("one")
    assert enrolment.judge(B) == Verdict("two", "revoked", "the key of two was revoked")


def test_a_key_expires(path: Path) -> None:
    now = 0.0
    write_entries(path, {"one": Entry(A, expires="2027-01-31")})
    enrolment = Enrolment(path, clock=lambda: now)
    now = expires_at("2027-01-31") - 1
    assert enrolment.judge(A) == Verdict("one")
    now += 1
    assert enrolment.judge(A) == Verdict("one", "expired", "the key of one has expired (2027-01-31)")


@pytest.mark.parametrize("text", ["2027-01-31", "2027-01-31T00:00", "2027-01-31T00:00Z", "2027-01-31T02:00+02:00"])
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert expires_at(text) == datetime(2027, 1, 31, tzinfo=timezone.utc).timestamp()


def test_a_file_that_is_no_list_changes_nothing_and_is_named(path: Path) -> None:
    write_entries(path, {"one": Entry(A)})
    enrolment = Enrolment(path)
    path.write_text("[one")
    os.utime(path, ns=(1, 1))
    assert enrolment.judge(A) == Verdict("one")
    assert "clients.toml: expected TOML" in enrolment.fault
    write_entries(path, {"two": Entry(A)})
    assert enrolment.judge(A) == Verdict("two")
    assert enrolment.fault == ""


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.rename(path.with_name("old")), "expected the enrolment list, which is gone"),
        (lambda path: path.write_text(""), "expected an entry for each client, .* got none"),
    ],
)
def test_a_list_that_is_lost_or_being_written_locks_nobody_out(
    path: Path, spoil: Callable[[Path], None], told: str
) -> None:
    write_entries(path, {"one": Entry(A)})
    enrolment = Enrolment(path)
    spoil(path)
    assert enrolment.judge(A) == Verdict("one")
    assert re.search(f"clients.toml: {told}", enrolment.fault)
    write_entries(path, {"one": Entry(A, revoked=True)})
    assert enrolment.judge(A).code == "revoked"
    assert enrolment.fault == ""


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_list_that_others_may_write_by_now_is_told_and_changes_nothing_until_it_is_closed(
    path: Path, is_folder: bool
) -> None:
    write_entries(path, {"one": Entry(A)})
    enrolment = Enrolment(path)
    opened = path.parent if is_folder else path
    os.chmod(opened, 0o777)
    assert enrolment.judge(A) == Verdict("one")
    assert f"got mode 777; chmod go-w {opened}" in enrolment.fault
    path.write_text(f'[two]\npublic_key = "{B}"')
    assert enrolment.judge(B).code == "not_enrolled"
    assert Enrolment(path, allow_open=True).judge(B) == Verdict("two")
    os.chmod(opened, 0o755)
    assert enrolment.judge(B) == Verdict("two")
    assert enrolment.fault == ""


def test_a_list_of_nobody_is_told_of_until_somebody_is_enrolled(path: Path) -> None:
    write_entries(path, {})
    enrolment = Enrolment(path)
    assert enrolment.judge(A).code == "not_enrolled"
    assert "clients.toml: nobody is enrolled" in enrolment.fault
    write_entries(path, {"one": Entry(A)})
    assert enrolment.judge(A) == Verdict("one")
    assert enrolment.fault == ""


def test_a_list_that_cannot_be_reached_any_more_stays_as_it_was(path: Path) -> None:
    write_entries(path, {"one": Entry(A)})
    enrolment = Enrolment(path)
    shutil.rmtree(path.parent)
    path.parent.touch()
    assert enrolment.judge(A) == Verdict("one")
    assert "clients.toml: expected to read the enrolment list, got Not a directory" in enrolment.fault


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[one]\npublic_key = "abc"', r"clients.toml \[one\]: public_key = 'abc': expected 64 hexadecimal"),
        (f'[one]\npublic_key = "{A}"\nexpires = "soon"', r"\[one\]: expires = 'soon': expected a day such as"),
        (f'["a/b"]\npublic_key = "{A}"', r"\[a/b\]: expected a client id of 1 to 64"),
        (
            f'[one]\npublic_key = "{A}"\n[two]\npublic_key = "{A}"',
            r"\[two\]: expected a key of its own, got that of one",
        ),
        ("[one]\nexpires = ''", r"\[one\]: .*missing required field `public_key`"),
        (f'[one]\npublic_key = "{A}"\nexpire = ""', r"\[one\]: .*unknown field `expire`"),
        ("one = 1", "expected every key to stand in a table"),
    ],
)
def test_anything_else_is_no_list(path: Path, content: str, message: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        Enrolment(path)


def test_what_is_written_is_read_again_and_nothing_wrong_is_written(path: Path) -> None:
    entries = {"one": Entry(A, "2027-01-31T12:00+01:00"), "two": Entry(B, revoked=True)}
    write_entries(path, entries)
    assert read_entries(path) == entries
    with pytest.raises(ConfigError, match="expected a client id"):
        write_entries(path, {"../up": Entry(A)})
    assert read_entries(path) == entries
