"""The process that writes down which samples each client is given."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from coordinator import draw
from coordinator.config import load
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError, DataConfig
from wire.exit_codes import ExitCode

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
CLOSED = OSError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of two clients, named on the command line."""
    np.savez(tmp_path / "data.npz", x=np.zeros((8, 4), np.float32), y=np.arange(8) % 2)
    data = ["data.dataset=npz", f"data.root={tmp_path}/data.npz", 'data.classes=["a", "b"]', "data.num_clients=2"]
    config = load(None, [f"run.dir={tmp_path}", "data.partition=iid", "data.min_size=0", *data])
    folder = RunFolder.create(config, "20260131-235959")
    monkeypatch.setattr(draw, "end_with_parent", lambda: None)
    monkeypatch.setattr(sys, "argv", ["draw", str(folder.path), str(tmp_path)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    return folder


def test_the_samples_of_each_client_are_written(run: RunFolder) -> None:
    draw.main()
    with np.load(run.indices_path) as rows:
        drawn = [rows[f"client{index:02d}_{part}"] for index in range(2) for part in ("train", "test")]
    assert sorted(np.concatenate(drawn)) == list(range(8))


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (FULL, ExitCode.NO_SPACE, "No space left on device; free some disk space"),
        (CLOSED, ExitCode.BAD_CONFIG, "Permission denied; make the folder writable"),
    ],
)
def test_why_they_cannot_be_written_is_told_in_a_line(
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    code: ExitCode,
    told: str,
) -> None:
    def fail(descriptor: int) -> None:
        raise error

    monkeypatch.setattr("coordinator.store.run_folder.os.fsync", fail)
    with pytest.raises(SystemExit) as ended:
        draw.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == f"{run.indices_path}: {told}\n"
    assert not run.indices_path.exists()


def test_so_is_that_there_is_no_room_for_the_data(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(config: DataConfig) -> NoReturn:
        raise ConfigError("the download failed") from FULL

    monkeypatch.setattr(draw, "load_dataset", fetch)
    with pytest.raises(SystemExit) as ended:
        draw.main()
    assert ended.value.code == ExitCode.NO_SPACE
