"""What a device says of itself in its hello."""

from pathlib import Path

import psutil
import pytest

from edge_client import announcement
from edge_client.config import load

SETTINGS = ["client.id=a", "data.index=3"]


def test_it_says_what_its_config_and_the_machine_say() -> None:
    said = announcement.announcement(load(None, [*SETTINGS, 'client.tags=["attic"]', 'client.classes=["cat"]']))
    assert said.pop("memory_bytes") == psutil.virtual_memory().total
    assert isinstance(said.pop("cuda"), bool)
    assert said == {"tags": ["attic"], "classes": ["cat"], "source": "run", "index": 3}


def test_a_device_with_samples_of_its_own_has_no_part_of_the_runs() -> None:
    said = announcement.announcement(load(None, [*SETTINGS, "data.source=npz", "data.root=x.npz"]))
    assert (said["source"], said["index"]) == ("npz", None)


@pytest.mark.parametrize(("device", "expected"), [("auto", True), ("cuda", True), ("cpu", False)])
def test_a_gpu_counts_where_the_trainer_may_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, expected: bool
) -> None:
    monkeypatch.setattr(announcement, "GPU_DEVICES", (str(tmp_path),))
    assert announcement.announcement(load(None, [*SETTINGS, f"training.device={device}"]))["cuda"] is expected
