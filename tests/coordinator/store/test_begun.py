"""A run goes on with the id and the settings that its store remembers, and with no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.store.begun import CHANGEABLE, check_begun, check_same, texts_of
from coordinator.store.run_folder import RunFolder
from coordinator.store.stored_facts import StoredFacts, facts_from
from models.spec import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(load(None, [f"run.dir={tmp_path}", "run.seed=3"]), "20260131-235959")


def edit(folder: RunFolder, old: str, new: str) -> None:
    text = folder.config_path.read_text()
    assert old in text
    folder.config_path.write_text(text.replace(old, new))


def test_a_folder_as_it_was_goes_on(folder: RunFolder) -> None:
    check_begun(folder, facts_from(texts_of(folder)))


def test_settings_that_were_edited_are_named(folder: RunFolder) -> None:
    facts = facts_from(texts_of(folder))
    edit(folder, "seed = 3", "seed = 4")
    edit(folder, "lr = 0.05", "lr = 0.5")
    expected = "run.seed = 4: expected 3; training.lr = 0.5: expected 0.05"
    told = f"{folder.config_path}: a run goes on with the settings it was started with: {expected}"
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        check_begun(folder, facts)


def test_settings_that_are_gone_are_missed(folder: RunFolder) -> None:
    facts = facts_from(texts_of(folder))
    edit(folder, "seed = 3\n", "seed = 3\nelsewhere = 1\n")
    edit(folder, "lr = 0.05\n", "")
    with pytest.raises(ConfigError, match=r"training.lr = None: expected 0.05; run.elsewhere = 1: expected None$"):
        check_begun(folder, facts)


def test_of_many_the_first_are_named() -> None:
    begun = {"run": dict.fromkeys("abcdefg", 0)}
    with pytest.raises(ConfigError, match=r"run\.e = None: expected 0; and 2 more$"):
        check_same(begun, {}, "here")


def test_settings_that_change_no_result_may_be_edited(folder: RunFolder) -> None:
    facts = facts_from(texts_of(folder))
    edit(folder, "heartbeat_s = 5.0", "heartbeat_s = 2.5")
    edit(folder, "max_failed_rounds = 3", "max_failed_rounds = 9")
    check_begun(folder, facts)
    assert {"transport.heartbeat_s", "round.max_failed_rounds"} <= set(CHANGEABLE)


@pytest.mark.parametrize("batched", [True, False])
def test_what_was_left_open_may_have_been_settled(batched: bool) -> None:
    settled = {"simulation": {"batched": batched}}
    check_same({"simulation": {"batched": "auto"}}, settled, "here")
    with pytest.raises(ConfigError, match=r"simulation\.batched"):
        check_same(settled, {"simulation": {"batched": not batched}}, "here")


def test_a_folder_by_another_name_is_not_the_run(folder: RunFolder) -> None:
    facts, run_id = facts_from(texts_of(folder)), folder.run_id
    copy = RunFolder(folder.path.rename(folder.path.with_name("copy")))
    with pytest.raises(ConfigError, match=f"expected a folder named {run_id}.*got copy: give it that name"):
        check_begun(copy, facts)


def test_a_run_may_be_put_elsewhere(folder: RunFolder, tmp_path: Path) -> None:
    facts = facts_from(texts_of(folder))
    (tmp_path / "elsewhere").mkdir()
    check_begun(RunFolder(folder.path.rename(tmp_path / "elsewhere" / folder.run_id)), facts)


def test_what_an_older_program_began_goes_on_by_its_folder(folder: RunFolder) -> None:
    edit(folder, "seed = 3", "seed = 4")
    check_begun(folder, StoredFacts(mode="serve"))
