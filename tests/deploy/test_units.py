"""The systemd units: what systemd itself says of them, and that they know our exit codes and commands."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wire.exit_codes import ExitCode

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))

MAX_EXPOSURE = 4.0
"""Of 10, as `systemd-analyze security` counts."""

by_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


class Unit(configparser.RawConfigParser):
    """A unit file, the last value of each key; the keys' names as they are."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False)
        self.read_string(path.read_text())

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def systemd_analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@by_unit
def test_systemd_finds_no_fault(unit: Path, tmp_path: Path) -> None:
    path = tmp_path / unit.name
    path.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text()))
    checked = systemd_analyze("verify", "--man=no", path)
    assert (checked.returncode, checked.stderr) == (0, "")


@by_unit
def test_it_is_hardened(unit: Path) -> None:
    checked = systemd_analyze("security", "--offline=true", unit)
    if "offline" in checked.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit that is not loaded")
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", checked.stdout)
    assert exposure is not None, checked.stderr
    assert float(exposure[1]) < MAX_EXPOSURE


@by_unit
def test_it_is_restarted_but_for_what_would_only_come_again(unit: Path) -> None:
    service = Unit(unit)["Service"]
    given_up = {int(code) for code in service["RestartPreventExitStatus"].split()}
    expected = {ExitCode.BAD_CONFIG, ExitCode.REFUSED}
    if "coordinator" in unit.name:
        expected.add(ExitCode.FAILED)
    assert given_up == expected  # what cannot be written, as on a full disk, comes again
    assert (service["Restart"], service["SuccessExitStatus"]) == ("on-failure", str(int(ExitCode.INTERRUPTED)))


@by_unit
def test_its_loop_is_watched(unit: Path) -> None:
    service = Unit(unit)["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 0
