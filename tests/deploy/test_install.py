"""The install script for real: on a fresh Debian that boots, from wheels alone, both roles, and gone again.

It is one story: each test goes on where the last one ended.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.machine import NEEDED, PYTHON, Machine
from tests.integration.processes import until
from wire.exit_codes import ExitCode

pytestmark = [pytest.mark.install, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
INSTALL = "PIP_NO_INDEX=1 PIP_FIND_LINKS=/src/wheels /src/deploy/install.sh"
FROM = "--from /src/wheels/protoedge-*.whl"
CLIENT, COORDINATOR = "protoedge-client", "protoedge-coordinator"
SETTINGS = "/etc/protoedge/client.toml"
QUICK = "[Service]\\nWatchdogSec=3\\nRestartSec=1\\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    made = Machine(tmp_path_factory.mktemp("machine") / "root")
    shutil.copytree(ROOT / "deploy", made.root / "src" / "deploy")
    gather_wheels(made.root / "src" / "wheels")
    try:
        made.boot()
        yield made
    finally:
        made.off()


def gather_wheels(folder: Path) -> None:
    """Make a folder of all that a device without the package index needs."""
    pip = [sys.executable, "-m", "pip", "-qq"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    platforms = ["--platform", f"manylinux2014_{platform.machine()}", "--python-version", PYTHON]
    (wheel,) = folder.iterdir()
    subprocess.run([*pip, "download", "--only-binary=:all:", *platforms, "--dest", folder, wheel], check=True)


def test_a_server_and_a_board_are_set_up_by_a_command_each(machine: Machine) -> None:
    told = machine.say(f"{INSTALL} coordinator {FROM}")
    server_key = re.findall(r'public_key = "(\w+)"', told)[-1]
    told = machine.say(f"{INSTALL} client bench-01 127.0.0.1:7071 {server_key} {FROM}")
    enroll, examine, start = [line for line in told.splitlines() if not line.startswith("install.sh: ")]
    machine.say(enroll)
    machine.say("systemctl start protoedge-coordinator")
    assert "let in as bench-01" in machine.say(examine)
    machine.say(f"sed -i s/127.0.0.1:7071/127.0.0.1:9/ {SETTINGS}")  # without torch it can wait for a run, and no more
    machine.say(start)
    for unit in (CLIENT, COORDINATOR):
        assert machine.unit(unit, "ActiveState", "User", "UnitFileState") == ["active", "protoedge", "enabled"]


def test_a_daemon_that_was_killed_or_hangs_comes_back(machine: Machine) -> None:
    machine.say(
        f"for unit in {CLIENT} {COORDINATOR}; do mkdir -p /run/systemd/system/$unit.service.d; "
        f"printf '{QUICK}' >/run/systemd/system/$unit.service.d/quick.conf; done; systemctl daemon-reload"
    )
    machine.say(f"systemctl restart {CLIENT} {COORDINATOR}")
    (folder,) = machine.say("ls -d /var/lib/protoedge/runs/*").splitlines()
    machine.say(f"systemctl kill --signal=KILL --kill-whom=main {COORDINATOR}")
    machine.say(f"systemctl kill --signal=STOP --kill-whom=main {CLIENT}")
    until(
        lambda: machine.unit(COORDINATOR, "NRestarts", "ActiveState") == ["1", "active"], "the killed one is back", 30
    )
    until(lambda: machine.unit(CLIENT, "NRestarts", "ActiveState") == ["1", "active"], "the hung one is back", 30)
    assert "Watchdog timeout" in machine.say(f"journalctl --unit {CLIENT} --output cat")
    assert machine.say("ls -d /var/lib/protoedge/runs/*") == folder, "it is the same run"


def test_a_client_that_is_refused_stays_ended(machine: Machine) -> None:
    machine.say("sudo -u protoedge coordinator keys revoke bench-01 --config /etc/protoedge/run.toml")
    machine.say(f"sed -i s/127.0.0.1:9/127.0.0.1:7071/ {SETTINGS} && systemctl restart {CLIENT}")
    refused = ["failed", str(int(ExitCode.REFUSED))]
    until(lambda: machine.unit(CLIENT, "ActiveState", "ExecMainStatus") == refused, "it was refused", 30)
    assert machine.run(f"sudo -u protoedge edge-client doctor --config {SETTINGS}").returncode == ExitCode.REFUSED


def test_installing_again_puts_settings_right_and_keeps_keys(machine: Machine) -> None:
    kept = "sha256sum /var/lib/protoedge/client-state/bench-01/client.secret"
    before = machine.say(kept)
    server_key = re.findall(r'public_key = "(\w+)"', machine.say(f"cat {SETTINGS}"))[-1]
    assert machine.run(f"{INSTALL} client bench-01 127.0.0.1:1 nothing {FROM}").returncode == ExitCode.BAD_CONFIG
    machine.say(f"{INSTALL} client bench-01 127.0.0.1:1 {server_key} {FROM}")
    assert 'address = "127.0.0.1:1"' in machine.say(f"cat {SETTINGS}")
    assert machine.say(kept) == before


def test_it_leaves_nothing_behind(machine: Machine) -> None:
    machine.say("/src/deploy/install.sh --uninstall")
    assert machine.run("ls /opt/protoedge /usr/local/bin/coordinator /etc/systemd/system/protoedge-*").stdout == ""
    assert machine.say(f"ls {SETTINGS}") == SETTINGS
    machine.say("/src/deploy/install.sh --uninstall --purge")
    assert machine.run("ls -d /etc/protoedge /var/lib/protoedge; id protoedge").stdout == ""
    machine.say("/src/deploy/install.sh --uninstall")
