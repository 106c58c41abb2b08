"""What a device says of itself in its hello."""

import pytest

from edge_client.announcement import announcement
from edge_client.config import load

SETTINGS = ["client.id=a", "data.index=3"]


def test_it_says_what_its_config_and_the_machine_say() -> None:
    config = load(None, [*SETTINGS, 'client.tags=["attic"]', 'client.classes=["cat"]'])
    assert announcement(config, {"machine": "aarch64"}) == {
        "machine": "aarch64", "tags": ["attic"], "classes": ["cat"], "source": "run", "cuda": False, "data_index": 3,
    }  # fmt: skip


def test_a_device_with_samples_of_its_own_has_no_part_of_the_runs() -> None:
    said = announcement(load(None, [*SETTINGS, "data.source=npz", "data.root=x.npz"]), {})
    assert said["source"] == "npz"
    assert "data_index" not in said


@pytest.mark.parametrize(("device", "expected"), [("auto", True), ("cuda", True), ("cpu", False)])
def test_a_gpu_counts_where_the_trainer_may_use_it(device: str, expected: bool) -> None:
    config = load(None, [*SETTINGS, f"training.device={device}"])
    assert announcement(config, {"gpu": "integrated"})["cuda"] is expected
