"""What a device says of itself, on trees of files as boards have them."""

from __future__ import annotations

from pathlib import Path

from coordinator.clients.device import read_device
from edge_client.device import gpu, has_unified_memory, host, installed, profile


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_a_jetson_has_a_board_and_memory_that_its_gpu_shares(tmp_path: Path) -> None:
    write(tmp_path / "proc/device-tree/model", "NVIDIA Jetson Orin Nano Developer Kit\0")
    write(tmp_path / "proc/device-tree/compatible", "nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0")
    write(tmp_path / "proc/meminfo", "MemTotal:        7802468 kB\nMemFree: 1 kB\n")
    found = profile(tmp_path)
    assert found["board"] == "NVIDIA Jetson Orin Nano Developer Kit"
    assert (found["gpu"], found["has_unified_memory"], found["memory_bytes"]) == ("integrated", True, 7802468 * 1024)


def test_a_workstation_has_cards(tmp_path: Path) -> None:
    for index, model in enumerate(("NVIDIA H200", "NVIDIA T4")):
        write(tmp_path / f"proc/driver/nvidia/gpus/0000:0{index}:00.0/information", f"Model: \t\t {model}\nIRQ: 3\n")
    assert gpu(tmp_path) == "NVIDIA H200, NVIDIA T4"
    assert not has_unified_memory(tmp_path)


def test_what_cannot_be_found_is_left_out(tmp_path: Path) -> None:
    found = profile(tmp_path)
    assert not {"board", "cpu", "gpu", "memory_bytes", "has_unified_memory", "host"} & found.keys()
    assert {"machine", "system", "python", "numpy"} <= found.keys()


def test_a_host_has_a_name_that_does_not_give_its_id_away(tmp_path: Path) -> None:
    write(tmp_path / "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    name = host(tmp_path)
    assert name is not None
    assert len(name) == 12
    assert name not in "0123456789abcdef0123456789abcdef"


def test_versions_are_those_of_the_installed_packages(tmp_path: Path) -> None:
    (tmp_path / "torch-2.4.1+cu124.dist-info").mkdir()
    (tmp_path / "torch_geometric-1.0.dist-info").mkdir()
    assert installed("torch", [str(tmp_path)]) == "2.4.1+cu124"
    assert installed("numpy", [str(tmp_path)]) is None


def test_the_coordinator_takes_all_of_this_machine_s(tmp_path: Path) -> None:
    found = profile()
    told = read_device(found)
    assert {name: getattr(told, name) for name in found} == found
