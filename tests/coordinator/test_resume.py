"""Which runs go on, by which command, and with which settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.resume import last_run, take_up
from coordinator.store.begun import CHANGEABLE
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import Store
from models.spec import ConfigError
from tests.coordinator.stores import call, figures, stored_run, unexpected


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def refused(folder: RunFolder, mode: str = "serve", given: Path | None = None, *settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        take_up(folder.path, mode, given, settings)
    return str(caught.value).removeprefix(f"--resume {folder.path}: ")


@pytest.mark.parametrize(("started", "mode"), [("serve", "serve"), ("loopback", "loopback"), ("loopback", "serve")])
def test_a_run_goes_on_as_it_was(tmp_path: Path, started: str, mode: str) -> None:
    folder = stored_run(tmp_path, started, "run.seed=3", "round.min_clients=1")
    config, modules, found = take_up(folder.path, mode, None, [])
    assert config == load(folder.config_path, [])
    assert (modules, found.run_id) == (tmp_path / "modules", folder.run_id)


def test_the_clients_of_another_place_cannot_be_started_here(tmp_path: Path) -> None:
    text = refused(stored_run(tmp_path, "serve"), "loopback")
    assert text == "a run of serve; expected the command serve, got loopback"


def test_a_simulated_run_cannot_go_on(tmp_path: Path) -> None:
    text = refused(stored_run(tmp_path, "simulate"), "loopback")
    assert text == "a run of simulate; expected the command simulate, got loopback"


def test_a_run_that_was_kept_in_memory_is_gone(tmp_path: Path) -> None:
    text = refused(stored_run(tmp_path, "serve", "run.store=memory"))
    assert text == "[run] store = 'memory' keeps nothing that a run could go on from"


def test_a_folder_without_a_store_or_with_nothing_in_it_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")
    assert "there is no store.sqlite: the run has not begun" in refused(folder)
    Store(folder.store_path, call, unexpected).close()
    assert refused(folder).endswith("the run ended before anything was stored; start it anew")


@pytest.mark.parametrize("outcome", ["finished", "interrupted"])
def test_a_run_that_is_over_and_has_lost_its_store_has_begun(tmp_path: Path, outcome: str) -> None:
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")
    folder.write_summary(figures(outcome=outcome))
    text = refused(folder)
    assert f"there is no store.sqlite: the run is over ({outcome}) and has lost it or was kept in memory" in text
    how = f"coordinator report {folder.path} --format table tells its figures"
    assert text.endswith(f"put it back, or a copy of the run folder; {how}")
    folder.summary_path.write_text("{")
    assert "the run has not begun" in refused(folder)


def test_each_setting_that_differs_is_named_with_both_values(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "serve", "run.seed=3")
    other = tmp_path / "other.toml"
    other.write_text(f'[run]\ndir = "{tmp_path}"\nseed = 3\n[method]\nweighting = "uniform"\n')
    text = refused(folder, "serve", other, "run.num_rounds=5")
    expected = "run.num_rounds = 5: expected 10; method.weighting = 'uniform': expected 'counts'"
    assert text == f"a run goes on with the settings it was started with: {expected}"
    assert "run.seed = 0: expected 3" in refused(folder, "serve", None, "run.seed=0")


def test_another_method_has_other_settings(tmp_path: Path) -> None:
    text = refused(stored_run(tmp_path, "serve"), "serve", None, "method.name=local_only")
    assert "method.name = 'local_only': expected 'fedproto'" in text
    assert "method.weighting = None: expected 'counts'" in text


def test_settings_that_change_no_result_may_differ(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "serve")
    values = (
        "127.0.0.1:7072",
        "other-keys",
        "2.5",
        "1000000",
        "9",
        '["a"]',
        '["b"]',
        "1",
        "true",
        "npz",
        "false",
        "true",
        "true",
        "127.0.0.1:7073",
        "ray",
        "auto",
        "0.5",
        "2",
        "1000",
    )
    settings = [f"{key}={value}" for key, value in zip(CHANGEABLE, values, strict=True)]
    config, _, _ = take_up(folder.path, "serve", None, settings)
    assert (config.transport.bind, config.round.max_failed_rounds) == ("127.0.0.1:7072", 9)


def test_a_config_beside_it_brings_its_own_modules(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "serve")
    (tmp_path / "moved").mkdir()
    given = tmp_path / "moved" / "run.toml"
    given.write_text(folder.config_path.read_text())
    assert take_up(folder.path, "serve", given, [])[1] == tmp_path / "moved"
    assert sys.path[-1] == str(tmp_path / "moved")


def test_a_config_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "serve")
    folder.config_path.write_text("")
    with pytest.raises(ConfigError, match=r"config\.toml: expected all settings of the run.*`run`; put the file back"):
        take_up(folder.path, "serve", None, [])


def test_the_folder_of_runs_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "100% #1?").mkdir()
    folder = stored_run(tmp_path / "100% #1?", "serve")
    assert take_up(folder.path, "serve", None, [])[2].path == folder.path


def test_the_last_run_of_the_same_settings_is_found_over_or_not(tmp_path: Path) -> None:
    runs = [stored_run(tmp_path, "serve", f"run.seed={seed}") for seed in (1, 1, 2)]
    for age_s, folder in enumerate(reversed(runs)):
        os.utime(folder.config_path, (1e9 - age_s, 1e9 - age_s))
    runs[1].write_summary(figures(outcome="finished"))
    config = load(None, [f"run.dir={tmp_path}", "run.seed=1"])
    assert last_run(config, "serve") == runs[1].path


@pytest.mark.parametrize(
    ("mode", "settings"), [("loopback", []), ("serve", ["run.seed=2"]), ("serve", ["run.dir=elsewhere"])]
)
def test_a_run_of_others_is_not_taken_for_it(tmp_path: Path, mode: str, settings: list[str]) -> None:
    stored_run(tmp_path, "serve")
    RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")  # in which nothing was stored yet
    assert last_run(load(None, [f"run.dir={tmp_path}", *settings]), mode) is None
