"""Which sensors a device has, on trees of files as they are in `/sys`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edge_client.sensors import find_sensors, told_of


def write(root: Path, **files: str) -> None:
    """Write files; `__` stands for `/`."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def hwmon(root: Path, *rails: tuple[str, int, int], number: int = 3) -> None:
    """Write an INA3221 with rails of these millivolts and milliamperes."""
    folder = root / f"sys/class/hwmon/hwmon{number}"
    folder.mkdir(parents=True)
    (folder / "name").write_text("ina3221\n")
    for channel, (label, millivolts, milliamperes) in enumerate(rails, start=1):
        (folder / f"in{channel}_label").write_text(f"{label}\n")
        (folder / f"in{channel}_input").write_text(f"{millivolts}\n")
        (folder / f"curr{channel}_input").write_text(f"{milliamperes}\n")
    (folder / "in7_label").write_text("sum of shunt voltages\n")
    (folder / "in7_input").write_text("24\n")


def test_the_rail_that_all_others_are_behind_is_taken_alone(tmp_path: Path) -> None:
    hwmon(tmp_path, ("VDD_IN", 5000, 1200), ("VDD_CPU_GPU_CV", 5000, 400), ("VDD_SOC", 5000, 300))
    (sensor,) = find_sensors(tmp_path).sensors
    assert (sensor.name, sensor.read(), sensor.counts) == ("ina3221 VDD_IN", 6.0, False)


def test_a_board_without_such_a_rail_has_all_of_them(tmp_path: Path) -> None:
    hwmon(tmp_path, ("VDD_GPU_SOC", 5000, 100), ("VDD_CPU_CV", 5000, 200), ("VIN_SYS_5V0", 5000, 300))
    found = find_sensors(tmp_path)
    assert [sensor.read() for sensor in found.sensors] == [1.0, 0.5, 1.5]
    assert told_of(found)["energy_sources"][0] == "ina3221 VDD_CPU_CV"


def test_a_channel_that_is_not_connected_is_left_out(tmp_path: Path) -> None:
    """As on AGX Orin, which has two such chips."""
    hwmon(tmp_path, ("VDD_GPU_SOC", 5000, 100), ("VDD_CPU_CV", 5000, 200), ("VIN_SYS_5V0", 5000, 300))
    hwmon(tmp_path, ("NC", 5000, 80), ("VDDQ_VDD2_1V8AO", 5000, 400), ("NC", 5000, 90), number=4)
    rails = ["VDDQ_VDD2_1V8AO", "VDD_CPU_CV", "VDD_GPU_SOC", "VIN_SYS_5V0"]
    sensors = find_sensors(tmp_path).sensors
    assert [sensor.name for sensor in sensors] == [f"ina3221 {rail}" for rail in rails]
    assert sum(sensor.read() for sensor in sensors) == 5.0


def test_a_monitor_of_which_nothing_is_connected_is_none(tmp_path: Path) -> None:
    hwmon(tmp_path, ("NC", 5000, 80))
    assert "no INA3221" in find_sensors(tmp_path).reason


def test_older_boards_have_rails_as_iio_devices(tmp_path: Path) -> None:
    folder = "sys__bus__i2c__drivers__ina3221x__6-0040__iio:device0"
    rails = {"rail_name_0": "POM_5V_IN", "in_power0_input": "2614", "rail_name_1": "POM_5V_GPU", "in_power1_input": "0"}
    write(tmp_path, **{f"{folder}__{name}": content for name, content in rails.items()})
    (sensor,) = find_sensors(tmp_path).sensors
    assert (sensor.name, sensor.read()) == ("ina3221 POM_5V_IN", 2.614)


def test_processors_and_their_memory_count_themselves(tmp_path: Path) -> None:
    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram")):
        files = {"name": name, "energy_uj": "5000000", "max_energy_range_uj": "262143328850"}
        write(tmp_path, **{f"sys__class__powercap__{zone}__{file}": content for file, content in files.items()})
    sensors = find_sensors(tmp_path).sensors
    assert [sensor.name for sensor in sensors] == ["rapl package-0 of intel-rapl:0", "rapl dram of intel-rapl:0:1"]
    assert [(sensor.read(), sensor.counts, sensor.range_j) for sensor in sensors] == 2 * [(5.0, True, 262143.32885)]


def test_a_counter_that_may_not_be_read_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"name": "package-0", "energy_uj": "1", "max_energy_range_uj": "2"}
    write(tmp_path, **{f"sys__class__powercap__intel-rapl:0__{file}": content for file, content in files.items()})
    read = Path.read_text

    def read_as_anybody(path: Path, *args: Any, **kwargs: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_as_anybody)
    found = find_sensors(tmp_path)
    assert not found.sensors
    assert "RAPL: intel-rapl:0: Permission denied" in found.reason


def test_without_any_the_reason_names_all_that_was_looked_for(tmp_path: Path) -> None:
    found = find_sensors(tmp_path)
    assert not found.sensors
    assert told_of(found) == {"energy_reason": found.reason}
    for word in ("INA3221", "tegrastats", "RAPL", "NVIDIA driver"):
        assert word in found.reason


class FakeNvml(ModuleType):
    """NVML with one card that counts its energy and one that only says its power."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")

    def nvmlInit(self) -> None:
        return

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> bytes | str:
        return "Pascal" if handle else b"Volta"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return 12_500

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 90_000


def test_cards_count_or_say_their_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    sensors = find_sensors(tmp_path).sensors
    told = [(sensor.name, sensor.counts, sensor.read()) for sensor in sensors]
    assert told == [("nvml 0 Volta", True, 12.5), ("nvml 1 Pascal", False, 90.0)]


def test_a_driver_without_the_library_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    assert "needs the package nvidia-ml-py" in find_sensors(tmp_path).reason
