"""Run ids, paths, and files that are whole or not there."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from coordinator.config import RunConfig, load
from coordinator.store.run_folder import RunFolder, run_token
from models.spec import ConfigError
from tests.coordinator.stores import figures

NOW = "20260131-235959"


def config(folder: Path, *settings: str) -> RunConfig:
    return load(None, [f"run.dir={folder}", *settings])


@pytest.mark.parametrize(
    ("settings", "name"), [([], "fedproto"), (["run.name=mine"], "mine"), (["method.name=fedavg"], "fedavg")]
)
def test_a_run_id_has_name_time_and_four_digits(tmp_path: Path, settings: list[str], name: str) -> None:
    folder = RunFolder.create(config(tmp_path / "runs", *settings), NOW)
    assert re.fullmatch(rf"{name}-20260131-235959-[0-9a-f]{{4}}", folder.run_id)
    assert folder.path == tmp_path / "runs" / folder.run_id


def test_a_taken_run_id_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(os, "urandom", lambda _: bytes.fromhex(next(drawn)))
    ids = [RunFolder.create(config(tmp_path), NOW).run_id for _ in range(2)]
    assert ids == [f"fedproto-{NOW}-aaaa", f"fedproto-{NOW}-bbbb"]


def test_the_search_for_a_free_run_id_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda _: bytes.fromhex("aaaa"))
    RunFolder.create(config(tmp_path), NOW)
    with pytest.raises(ConfigError, match="no free run id"):
        RunFolder.create(config(tmp_path), NOW)


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=r"\[run\] dir = '.*file': expected a folder to write to, got Not a directory"
    ):
        RunFolder.create(config(tmp_path / "file"), NOW)


def test_the_paths_are_those_of_the_contract(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    paths = {
        "config.toml": folder.config_path,
        "store.sqlite": folder.store_path,
        "metrics.jsonl": folder.metrics_path,
        "histogram.json": folder.histogram_path,
        "summary.json": folder.summary_path,
        "global.safetensors": folder.global_path,
        "log.txt": folder.log_path,
    }
    assert {name: folder.path / name for name in paths} == paths


def test_the_effective_config_stands_in_a_new_folder(tmp_path: Path) -> None:
    made = config(tmp_path, "run.seed=7")
    folder = RunFolder.create(made, NOW)
    assert load(folder.config_path, []) == folder.read_config() == made
    assert [path.name for path in folder.path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "Object missing required field `run`"),
        ("[run]\nnum_rounds = 3\nseed = 0\n", "Object missing required field `method`"),
        ('[run]\nnum_rounds = "x"\nseed = 0\n[method]\nname = "fedproto"\n', r"Expected `int`, got `str`"),
        ("[run", "expected TOML"),
    ],
)
def test_a_config_that_is_not_whole_is_told_of(tmp_path: Path, content: str, told: str) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.config_path.write_text(content)
    for read in (folder.read_tables, folder.read_config):
        with pytest.raises(ConfigError, match=f"config.toml: .*{told}"):
            read()


def test_an_existing_folder_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = RunFolder.create(config(tmp_path), NOW)
    assert RunFolder.open(made.path).run_id == made.run_id
    monkeypatch.chdir(made.path)
    assert RunFolder.open(Path()).run_id == made.run_id


def test_what_is_no_run_folder_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, came in (
        (tmp_path, "a folder without one"),
        (tmp_path / "file", "a file"),
        (tmp_path / "none", "nothing"),
    ):
        with pytest.raises(ConfigError, match=rf"expected a run folder with a config\.toml, got {came}"):
            RunFolder.open(path)


def test_each_client_has_a_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    for _ in range(2):
        path = folder.client_folder("client-00")
        assert path == folder.path / "clients" / "client-00"
        assert path.is_dir()


@pytest.mark.parametrize("client", ["", ".", "..", "../up", "/etc", "a/b", "a\0b", "a" * 65])
def test_a_client_id_never_leads_out_of_the_folder(tmp_path: Path, client: str) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    with pytest.raises(ConfigError) as caught:
        folder.client_folder(client)
    assert str(caught.value).startswith(f"client id {client!r}: expected 1 to 64 letters")
    assert not (folder.path / "clients").exists()


def test_a_summary_replaces_the_last_one(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.write_summary({"rounds_completed": 1, "accuracy": {"best": 0.5}})
    folder.write_summary({"rounds_completed": 2, "accuracy": {"best": float("nan")}})
    assert json.loads(folder.summary_path.read_text()) == {"rounds_completed": 2, "accuracy": {"best": None}}
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.toml", "summary.json"]


def test_the_summary_of_a_run_that_goes_on_is_taken_away(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    assert folder.read_summary() == folder.take_summary() == {}
    folder.write_summary(figures(outcome="interrupted"))
    assert folder.read_summary() == folder.take_summary() == figures(outcome="interrupted")
    assert not folder.summary_path.exists()


@pytest.mark.parametrize(
    "content", ["[]", "null", "{", "[" * 100_000, '{"accuracy": 1}', json.dumps(figures(uplink=0))]
)
def test_a_damaged_summary_is_named(tmp_path: Path, content: str) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.summary_path.write_text(content)
    with pytest.raises(ConfigError, match=r"summary.json: expected the figures of a run.*; delete it"):
        folder.read_summary()


def test_the_metrics_are_written_anew(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.metrics_path.write_text('{"lost": 1}\n{"torn')
    folder.write_metrics(iter(['{"round": 1}', '{"round": 2}']))
    assert folder.metrics_path.read_text() == '{"round": 1}\n{"round": 2}\n'


def test_the_number_of_a_run_always_takes_two_bytes() -> None:
    tokens = [run_token(f"run-{number}") for number in range(200)]
    assert all(1 <= byte <= 127 for token in tokens for byte in divmod(token, 256))


def test_a_summary_that_cannot_be_written_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.write_summary({"rounds_completed": 1})

    def crash(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(OSError, match=r"disk full: .*/summary\.json"):
        folder.write_summary({"rounds_completed": 2})
    assert json.loads(folder.summary_path.read_text()) == {"rounds_completed": 1}
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.toml", "summary.json"]


def test_a_summary_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), NOW)
    folder.summary_path.mkdir()
    with pytest.raises(ConfigError, match=r"summary.json: expected the figures of a run, got Is a directory"):
        folder.read_summary()
