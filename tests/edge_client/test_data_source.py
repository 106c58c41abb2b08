"""Where a device's samples come from, source by source."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from coordinator.config import load as load_run
from edge_client.config import load as load_client
from edge_client.data_source import open_source
from models.data import ClientData
from models.registry import installed
from models.spec import ConfigError

OWN_SET = """
import numpy as np

from models.data import Dataset


def shapes(config):
    y = np.array([0, 1] * 4)
    return Dataset(np.ones((8, 2), np.float32) * y[:, None], y, classes=["square", "disc"])
"""


def samples(root: Path | str, source: str, classes: list[str], *settings: str) -> ClientData:
    client = load_client(None, ["client.id=a", f"data.source={source}", f'data.root="{root}"', *settings])
    return open_source(load_run(None, []).spec("run", classes), client).look()


def test_names_in_an_npz_file_are_found_in_the_label_map(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 3)), y=[0, 1, 1, 1], classes=["disc", "square"])
    data = samples(tmp_path / "mine.npz", "npz", ["square", "disc"])
    assert sorted([*data.train_y, *data.test_y]) == [0, 0, 0, 1]


def test_without_names_the_ids_are_the_runs(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 3)), y=[0, 2, 2, 2])
    data = samples(tmp_path / "mine.npz", "npz", ["a", "b", "c"])
    assert sorted([*data.train_y, *data.test_y]) == [0, 2, 2, 2]
    with pytest.raises(ConfigError, match=r"y: row 1 has label 2, expected an id of the label map 0..1"):
        samples(tmp_path / "mine.npz", "npz", ["a", "b"])


def test_names_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 3)), y=[0, 1, 1, 1], classes=[1, 2])
    with pytest.raises(ConfigError, match=r"classes must be texts \[N\], got int64 \[2\]"):
        samples(tmp_path / "mine.npz", "npz", ["a", "b"])


@pytest.mark.parametrize("source", ["own_shapes:shapes", "shapes"])
def test_a_factory_of_ones_own_and_one_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "own_shapes.py").write_text(OWN_SET)
    about = tmp_path / "own_shapes-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-shapes\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[protoedge.data_sources]\nshapes = own_shapes:shapes\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    data = samples("", source, ["disc", "ring", "square"])
    installed.cache_clear()
    sys.modules.pop("own_shapes")
    assert len(data.train_y) + len(data.test_y) == 8
    assert (data.train_x[:, 0] == (data.train_y == 0)).all()
    assert set(data.train_y.tolist()) == {0, 2}


def test_a_folder_of_images_follows_the_runs_settings(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    data = samples(tmp_path, "folder", ["a", "b"])
    assert data.train_x.shape == (0, 3, 32, 32)
