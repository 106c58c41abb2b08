"""What a run requires, against what devices have said."""

from typing import Any

import pytest

from coordinator.config import load
from coordinator.service.requirements import count_unmet, unmet

BOARD = {
    "tags": ["jetson", "attic"], "classes": ["cat"], "memory_bytes": 4 << 30, "cuda": True, "source": "npz",
    "data_index": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ('tags=["jetson"]', ""),
        ('tags=["jetson", "cellar"]', "tags cellar"),
        ('classes=["cat"]', ""),
        ('classes=["dog", "cat", "cow"]', "classes dog, cow"),
        ("min_memory_mib=4096", ""),
        ("min_memory_mib=4097", "min_memory_mib = 4097"),
        ("cuda=true", ""),
        ("source=npz", ""),
        ("source=run", "source = 'run'"),
    ],
)
def test_a_board_meets_a_requirement_or_not(setting: str, fault: str) -> None:
    assert unmet(load(None, [f"require.{setting}"]), BOARD) == fault


@pytest.mark.parametrize(("index", "fault"), [(3, ""), (4, "a [data] index below num_clients = 4"), (-1, "a [data]")])
def test_a_part_of_the_runs_data_must_be_there(index: int, fault: str) -> None:
    assert unmet(load(None, ["data.num_clients=4"]), {**BOARD, "data_index": index}).startswith(fault)


@pytest.mark.parametrize(
    "device", [{}, {"tags": "jetson", "memory_bytes": "much", "cuda": 1, "source": ["npz"], "data_index": "0"}]
)
def test_what_a_device_did_not_say_or_said_wrongly_is_not_met(device: dict[str, Any]) -> None:
    assert unmet(load(None, []), device) == ""
    for setting in ('tags=["jetson"]', "min_memory_mib=1", "cuda=true", "source=npz"):
        assert unmet(load(None, [f"require.{setting}"]), device) != ""


def test_each_device_counts_once() -> None:
    config = load(None, ["require.cuda=true", "require.min_memory_mib=8192"])
    devices = [BOARD, {**BOARD, "memory_bytes": 16 << 30}, {**BOARD, "memory_bytes": 16 << 30, "cuda": False}, {}]
    assert count_unmet(config, devices) == {"min_memory_mib = 8192": 2, "cuda": 1}
