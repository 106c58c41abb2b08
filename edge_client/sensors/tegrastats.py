"""`tegrastats`: the program of Jetson boards that prints a line of figures now and then, the rails' power among them.

A rail stands there as its name, its power now and its mean power, in milliwatts: `POM_5V_IN 2614/2614` up to JetPack 4,
`VDD_IN 4862mW/4862mW` since JetPack 5. What else looks alike has another unit (`RAM 2174/3964MB`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from edge_client.sensors.energy import NoSensorError
from edge_client.sensors.rails import whole

EVERY_MS = 500

WAIT_S = 3.0
"""How long the first line may take."""

_RAIL = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (\d+)(?:mW)?/\d+(?:mW)?(?!\S)")


def rails_of(line: str) -> dict[str, float]:
    """Return the power of each rail that a line tells, in watts."""
    return {rail: int(milliwatts) / 1e3 for rail, milliwatts in _RAIL.findall(line)}


class Tegrastats:
    """The program, and the power of the whole board by its last line; it ends when nobody reads it any more."""

    counts = False
    range_j = 0.0

    def __init__(self, program: str) -> None:
        """Start it and wait for its first line.

        Raises:
            OSError: it cannot be started.
            ValueError: it tells no power.
        """
        command = [program, "--interval", str(EVERY_MS)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
        self._unread = b""
        self._watts = 0.0
        try:
            rails = self._first_rails()
            self._rails = whole(rails)
            self._take(rails)
        except (OSError, ValueError):
            self.close()
            raise
        self.name = f"tegrastats {' + '.join(self._rails)}"

    def read(self) -> float:
        """Return watts by the newest line."""
        if self._process.poll() is not None:
            raise OSError("tegrastats has ended")
        if lines := self._lines():
            self._take(rails_of(lines[-1]))
        return self._watts

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _first_rails(self) -> dict[str, float]:
        import select

        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        while select.select([self._process.stdout], [], [], WAIT_S)[0]:
            if lines := self._lines():
                return rails_of(lines[-1])
            if self._process.poll() is not None:
                break
        raise ValueError(f"no line within {WAIT_S:g} s")

    def _lines(self) -> list[str]:
        """Return the whole lines that have come since the last call."""
        assert self._process.stdout is not None
        while chunk := self._process.stdout.read(65536):
            self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        return [line.decode("ascii", "replace") for line in lines]

    def _take(self, rails: dict[str, float]) -> None:
        if missing := [rail for rail in self._rails if rail not in rails]:
            raise ValueError(f"tegrastats: no power of {', '.join(missing)}")
        if not self._rails:
            raise ValueError("tegrastats: no power of any rail")
        self._watts = sum(rails[rail] for rail in self._rails)


def find(root: Path) -> list[Tegrastats]:
    """Return what the program tells.

    Raises:
        NoSensorError: there is none, or it tells no power.
    """
    program = shutil.which("tegrastats", path=os.pathsep.join([str(root / "usr/bin"), str(root / "home/nvidia")]))
    if program is None:
        raise NoSensorError("no tegrastats")
    try:
        return [Tegrastats(program)]
    except (OSError, ValueError) as error:
        raise NoSensorError(f"tegrastats: {error}") from None
