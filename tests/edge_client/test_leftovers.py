"""What earlier runs left on a device, and how long."""

import os
from pathlib import Path

import pytest

from edge_client.config import ClientSection
from edge_client.leftovers import DAY_S, constants_left, prune, prune_constants, prune_runs, run_folder, runs_left
from edge_client.limits import MEBIBYTE
from models.spec import ConfigError

NOW = 1000 * DAY_S


def left(folder: Path, name: str, age_days: float, mebibytes: float = 0.0) -> Path:
    """Leave a run of a size and age."""
    path = run_folder(folder, name)
    (path / "round_start.safetensors").write_bytes(bytes(round(mebibytes * MEBIBYTE)))
    os.utime(path, (NOW - age_days * DAY_S,) * 2)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in runs_left(folder))


def test_each_run_has_a_folder_that_is_of_now(tmp_path: Path) -> None:
    path = left(tmp_path, "a", age_days=3)
    assert run_folder(tmp_path, "a") == path
    assert path.stat().st_mtime > NOW
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("run_id", ["", ".", "..", "../a", "a/b", ".a", "a" * 129, "a\n"])
def test_a_coordinator_cannot_name_a_folder_elsewhere(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(ConfigError, match="run_id = "):
        run_folder(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    for name, age_days in (("new", 1), ("old", 29), ("older", 31)):
        left(tmp_path, name, age_days)
    prune(runs_left(tmp_path), 30, 1, NOW)
    assert names(tmp_path) == ["new", "old"]


def test_the_oldest_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    for name, age_days in (("a", 1), ("b", 2), ("c", 3)):
        left(tmp_path, name, age_days, mebibytes=0.5)
    prune(runs_left(tmp_path), 30, 1, NOW)
    assert names(tmp_path) == ["a", "b"]


def test_what_is_in_use_stays_however_large_or_old(tmp_path: Path) -> None:
    used = left(tmp_path, "used", age_days=100, mebibytes=0.5)
    left(tmp_path, "other", age_days=1)
    prune(runs_left(tmp_path), 0.5, 0.25, NOW, {used})
    assert names(tmp_path) == ["used"]


def test_constants_are_files(tmp_path: Path) -> None:
    (tmp_path / "constants").mkdir()
    for name, age_days in (("new", 1), ("old", 31)):
        path = tmp_path / "constants" / name
        path.write_text("x")
        os.utime(path, (NOW - age_days * DAY_S,) * 2)
    prune(constants_left(tmp_path), 30, 1, NOW)
    assert [path.name for path in constants_left(tmp_path)] == ["new"]


def test_runs_and_constants_share_one_allowance_of_which_constants_have_the_first_claim(tmp_path: Path) -> None:
    keep, shelf = ClientSection(keep_mib=1.0), tmp_path / "constants"
    shelf.mkdir()
    runs = [left(tmp_path, name, age_days, mebibytes=0.4) for name, age_days in (("a", 1), ("b", 3), ("c", 5))]
    for name, age_days in (("new", 2), ("old", 4), ("older", 6)):
        (shelf / name).write_bytes(bytes(round(0.3 * MEBIBYTE)))
        os.utime(shelf / name, (NOW - age_days * DAY_S,) * 2)
    prune_constants(tmp_path, keep, NOW)
    assert {path.name for path in constants_left(tmp_path)} == {"new", "old", "older"}
    (shelf / "older").unlink()
    prune_runs(tmp_path, keep, NOW, runs[0])
    assert ({path.name for path in constants_left(tmp_path)}, names(tmp_path)) == ({"new", "old"}, ["a"])
    (runs[0] / "more").write_bytes(bytes(2 * MEBIBYTE))
    prune_constants(tmp_path, keep, NOW)  # the current run alone is above the allowance
    assert {path.name for path in constants_left(tmp_path)} == {"new", "old"}


def test_a_device_without_runs_has_none_left(tmp_path: Path) -> None:
    prune(runs_left(tmp_path), 30, 1, NOW)
    assert runs_left(tmp_path) == constants_left(tmp_path) == []
