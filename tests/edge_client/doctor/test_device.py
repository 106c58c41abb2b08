"""What is said of the device itself, above all what keeps it from any run."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from edge_client.doctor import device
from edge_client.doctor.device import _onnxruntime, _torch
from edge_client.doctor.finding import Finding
from edge_client.sensors import find_sensors
from wire.exit_codes import ExitCode

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes seconds, and is not what is tested but where a test asks for it."""
    monkeypatch.setattr(device, "_torch", lambda: "2.0")
    monkeypatch.setattr(device, "_onnxruntime", lambda: "1.0")


def examined(folder: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in device.examine_device(folder)}


def test_this_device_could_take_part(tmp_path: Path) -> None:
    findings = examined(tmp_path / "not" / "made" / "yet")
    assert [name for name, finding in findings.items() if finding.code != ExitCode.FINISHED] == []
    assert f"free in {tmp_path}" in findings["disk"].told
    assert not any(finding.told.startswith("unknown") for finding in findings.values())


def test_torch_is_told_with_its_threads_and_devices() -> None:
    torch = pytest.importorskip("torch")
    told = _torch()
    assert isinstance(told, str)
    assert told.startswith(f"{torch.__version__}, {torch.get_num_threads()} threads, ")
    assert ("no CUDA device" in told) == (not torch.cuda.is_available())


def test_onnxruntime_is_told_with_its_providers() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    told = _onnxruntime()
    assert told.startswith(f"{onnxruntime.__version__}, providers ")
    assert "CPUExecutionProvider" in told


def test_where_the_system_does_not_tell_which_cores_are_usable_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert examined(tmp_path)["cpu"].told.endswith(f", {os.cpu_count()} cores usable")


def test_a_library_that_is_too_old_or_cannot_encrypt_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "has_curve", lambda: False)
    assert examined(tmp_path)["libzmq"].advice.startswith("it cannot encrypt: ")
    monkeypatch.setattr(device, "libzmq_version", lambda: (4, 2, 5))
    libzmq = examined(tmp_path)["libzmq"]
    assert (libzmq.code, libzmq.advice) == (ExitCode.BAD_CONFIG, "it is older than 4.3: install a newer pyzmq")


@pytest.mark.parametrize(("available", "level"), [(GIB, "ok"), (GIB // 2, "warn"), (GIB // 32, "FAIL")])
def test_memory_must_do_for_a_daemon_and_should_for_a_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: int, level: str
) -> None:
    monkeypatch.setattr(device, "_version", lambda package: "2.0")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=4 * GIB, available=available))
    memory = examined(tmp_path)["memory"]
    assert (memory.level, memory.figures["available_bytes"]) == (level, available)


@pytest.mark.parametrize(("free", "level"), [(2 * GIB, "ok"), (GIB // 2, "warn"), (GIB // 32, "FAIL")])
def test_disk_must_hold_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str) -> None:
    monkeypatch.setattr(psutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert examined(tmp_path)["disk"].level == level


def test_a_folder_that_may_not_be_written_to_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    disk = examined(tmp_path)["disk"]
    assert disk.told.endswith(f"free in {tmp_path}, which may not be written to")
    assert (disk.advice, disk.level) == (f"chown {os.geteuid()} {tmp_path}", "FAIL")


def test_an_owner_would_change_nothing_on_a_read_only_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    monkeypatch.setattr(psutil, "disk_usage", lambda path: SimpleNamespace(free=GIB))
    disk = examined(tmp_path)["disk"]
    assert disk.told.endswith("may not be written to, as its file system is read-only")
    assert (disk.level, disk.advice) == (
        "FAIL",
        "mount it to be written to, or name a folder elsewhere in [client] dir",
    )


@pytest.mark.parametrize(("limit", "level"), [(1024, "ok"), (-1, "ok"), (100, "FAIL")])
def test_few_descriptors_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, level: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, 4096))
    assert examined(tmp_path)["descriptors"].level == level


def rapl(root: Path) -> Path:
    """Write the counter of a processor."""
    zone = root / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, content in {"name": "package-0", "energy_uj": "1", "max_energy_range_uj": "2"}.items():
        (zone / name).write_text(content)
    return zone / "energy_uj"


def test_sensors_are_those_that_are_told_at_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rapl(tmp_path)
    monkeypatch.setattr(device, "find_sensors", lambda: find_sensors(tmp_path))
    findings = examined(tmp_path)
    assert findings["sensors"] == Finding("sensors", "rapl package-0 of intel-rapl:0")
    assert "energy_sources ['rapl package-0 of intel-rapl:0']" in findings["told at join"].told


def test_without_sensors_energy_stays_unknown_for_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_sensors", lambda: find_sensors(tmp_path))
    sensors = examined(tmp_path)["sensors"]
    assert sensors.told.startswith("none that tells power, so energy stays unknown: no INA3221")
    assert sensors.level == "ok"


def test_a_sensor_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, read = rapl(tmp_path), Path.read_text

    def read_as_anybody(path: Path, *args: Any, **kwargs: Any) -> str:
        if path == counter:
            raise PermissionError(13, "Permission denied")
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_as_anybody)
    monkeypatch.setattr(device, "find_sensors", lambda: find_sensors(tmp_path))
    closed = examined(tmp_path)["sensors"]
    assert "RAPL: intel-rapl:0: Permission denied" in closed.told
    assert closed.level == "warn"
    assert closed.advice == "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj, if energy is to be measured"
