"""A Debian of its own that boots in `systemd-nspawn`, to install on: accounts, Python and systemd as on a board."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psutil

from tests.integration.processes import until

NEEDED = ("debootstrap", "systemd-nspawn", "nsenter")

RELEASE, PYTHON = "bookworm", "3.11"

PACKAGES = "systemd,systemd-sysv,dbus,sudo"

ENVIRONMENT = ("HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")

MAKE_S, BOOT_S, COMMAND_S = 900.0, 60.0, 300.0


class Machine:
    """Shares the network of this one, and is off at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root)]
        subprocess.run(command, check=True, capture_output=True, timeout=MAKE_S)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        (root / "etc" / "hostname").write_text("localhost\n")
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        """Start it, and wait until its services are up."""
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={self.root}"]
        self._nspawn = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._is_up, "its services are up", BOOT_S)

    def off(self) -> None:
        """Switch it off."""
        assert self._nspawn is not None
        self._nspawn.terminate()
        self._nspawn.wait(BOOT_S)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command on it as root."""
        entered = ["nsenter", f"--target={self._leader}", "--all", "env", "-i", *ENVIRONMENT, "sh", "-c", command]
        return subprocess.run(entered, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL)

    def say(self, command: str) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def unit(self, name: str, *fields: str) -> list[str]:
        """Return what systemd has in fields of a unit."""
        return [self.say(f"systemctl show --property={field} --value {name}") for field in fields]

    def _is_up(self) -> bool:
        """Say whether it has booted; its first process is not the first child that is seen."""
        assert self._nspawn is not None
        self._leader = next((child.pid for child in psutil.Process(self._nspawn.pid).children()), 0)
        return self.run("systemctl is-system-running").stdout.strip() in ("running", "degraded")
