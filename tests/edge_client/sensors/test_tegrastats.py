"""Lines of tegrastats as the boards print them, and the program itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_client.sensors import find_sensors, tegrastats
from edge_client.sensors.rails import whole
from edge_client.sensors.tegrastats import WAIT_S, Tegrastats, rails_of

NANO = (
    "RAM 1923/3964MB (lfb 2x2MB) SWAP 191/1982MB (cached 6MB) IRAM 0/252kB(lfb 252kB) CPU [5%@1224,4%@1224,3%@1224,"
    "6%@1224] EMC_FREQ 0%@1600 GR3D_FREQ 0%@76 APE 25 PLL@37C CPU@40C PMIC@50C GPU@40C AO@45C thermal@40C "
    "POM_5V_IN 1750/1628 POM_5V_GPU 0/0 POM_5V_CPU 366/406"
)
XAVIER = (
    "RAM 1545/31919MB (lfb 7400x4MB) SWAP 2/15959MB (cached 1MB) CPU [0%@1190,1%@1190,off,off] EMC_FREQ 1%@408 "
    "GR3D_FREQ 12%@318 APE 150 MTS fg 0% bg 0% AO@38C GPU@39.5C Tdiode@41C PMIC@100C CPU@40C thermal@38.8C "
    "GPU 120/100 CPU 468/450 SOC 937/900 CV 0/0 VDDRQ 312/234 SYS5V 1458/1400"
)
ORIN = (
    "05-14-2024 10:11:12 RAM 4215/30588MB (lfb 5437x4MB) SWAP 0/15294MB (cached 0MB) CPU [1%@729,0%@729,0%@729,0%@729,"
    "off,off] EMC_FREQ 0%@2133 GR3D_FREQ 0%@[0,0] VIC_FREQ 729 APE 174 CV0@-256C CPU@47.5C Tboard@36C SOC2@43.9C "
    "Tdiode@37.5C SOC0@44.6C GPU@-256C tj@47.5C SOC1@43.4C CV2@-256C "
    "VDD_GPU_SOC 2410mW/2400mW VDD_CPU_CV 401mW/410mW VIN_SYS_5V0 3320mW/3300mW VDDQ_VDD2_1V8AO 703mW/700mW"
)
ORIN_NANO = (
    "09-01-2023 08:09:10 RAM 2520/6480MB (lfb 5x4MB) SWAP 0/3240MB (cached 0MB) CPU [6%@1510,2%@1510] GR3D_FREQ 0% "
    "cpu@48.1C soc2@46.9C tj@48.6C VDD_IN 4862mW/4862mW VDD_CPU_GPU_CV 640mW/640mW VDD_SOC 1450mW/1450mW"
)


@pytest.mark.parametrize(
    ("line", "rails"),
    [
        (NANO, {"POM_5V_IN": 1.75, "POM_5V_GPU": 0.0, "POM_5V_CPU": 0.366}),
        (XAVIER, {"GPU": 0.12, "CPU": 0.468, "SOC": 0.937, "CV": 0.0, "VDDRQ": 0.312, "SYS5V": 1.458}),
        (ORIN, {"VDD_GPU_SOC": 2.41, "VDD_CPU_CV": 0.401, "VIN_SYS_5V0": 3.32, "VDDQ_VDD2_1V8AO": 0.703}),
        (ORIN_NANO, {"VDD_IN": 4.862, "VDD_CPU_GPU_CV": 0.64, "VDD_SOC": 1.45}),
        ("RAM 1/2MB CPU [off]", {}),
    ],
    ids=["nano", "xavier", "orin", "orin-nano", "none"],
)
def test_every_rail_of_a_line_is_read(line: str, rails: dict[str, float]) -> None:
    assert rails_of(line) == rails


@pytest.mark.parametrize(
    ("line", "rails"),
    [
        (NANO, ["POM_5V_IN"]),
        (ORIN_NANO, ["VDD_IN"]),
        (XAVIER, ["CPU", "CV", "GPU", "SOC", "SYS5V", "VDDRQ"]),
        (f"NC 80mW/80mW {ORIN} NC 0mW/0mW", ["VDDQ_VDD2_1V8AO", "VDD_CPU_CV", "VDD_GPU_SOC", "VIN_SYS_5V0"]),
    ],
)
def test_the_whole_is_one_rail_or_all(line: str, rails: list[str]) -> None:
    assert list(whole(rails_of(line))) == rails


def put_program(root: Path, text: str) -> Path:
    path = root / "usr/bin/tegrastats"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_program_is_read_as_it_goes(tmp_path: Path) -> None:
    put_program(tmp_path, f'echo "{ORIN_NANO}"; echo "{ORIN_NANO}"; exec sleep 60')
    (sensor,) = find_sensors(tmp_path).sensors
    try:
        assert (sensor.name, sensor.counts, sensor.read()) == ("tegrastats VDD_IN", False, 4.862)
    finally:
        sensor.close()  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="has ended"):
        sensor.read()


@pytest.mark.parametrize("cut", ["", "RAM 2520/64", ORIN.partition(" VDD_CPU_CV")[0]], ids=["empty", "early", "late"])
def test_a_first_line_that_is_cut_short_is_not_gone_by(tmp_path: Path, cut: str) -> None:
    put_program(tmp_path, f'echo "{cut}"; sleep 0.1; echo "{ORIN}"; exec sleep 60')
    (sensor,) = find_sensors(tmp_path).sensors
    sensor.close()  # type: ignore[attr-defined]
    assert sensor.name == "tegrastats VDDQ_VDD2_1V8AO + VDD_CPU_CV + VDD_GPU_SOC + VIN_SYS_5V0"


def test_a_first_line_that_no_other_follows_does(tmp_path: Path) -> None:
    put_program(tmp_path, f'echo "{ORIN_NANO}"')
    (sensor,) = find_sensors(tmp_path).sensors
    sensor.close()  # type: ignore[attr-defined]
    assert sensor.name == "tegrastats VDD_IN"


def test_a_line_that_nothing_follows_is_believed_for_some_periods(tmp_path: Path) -> None:
    at = 100.0
    sensor = Tegrastats(
        str(put_program(tmp_path, f'echo "{ORIN_NANO}"; echo "{ORIN_NANO}"; exec sleep 60')), lambda: at
    )
    try:
        at += WAIT_S
        assert sensor.read() == 4.862
        at += 1.0
        with pytest.raises(OSError, match="tegrastats has said nothing for 4 s"):
            sensor.read()
    finally:
        sensor.close()


@pytest.mark.parametrize("text", ["exit 1", 'echo "RAM 1/2MB"; exec sleep 60'], ids=["ends", "says no power"])
def test_a_program_that_tells_no_power_is_a_reason(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tegrastats, "WAIT_S", 0.1)
    put_program(tmp_path, text)
    found = find_sensors(tmp_path)
    assert not found.sensors
    assert "tegrastats: no" in found.reason
