"""`tegrastats`: the program of Jetson boards that prints a line of figures now and then, the rails' power among them.

A rail stands there as its name, its power now and its mean power, in milliwatts: `POM_5V_IN 2614/2614` up to JetPack 4,
`VDD_IN 4862mW/4862mW` since JetPack 5. What else looks alike has another unit (`RAM 2174/3964MB`), but where it is cut
short.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from edge_client.sensors.energy import NoSensorError
from edge_client.sensors.rails import whole

EVERY_MS = 500

WAIT_S = 3.0
"""How long a line with rails may take at the start; and how old the newest line may be, some periods of it."""

_RAIL = re.compile(r"(?<!\S)(?!I?RAM |SWAP )([A-Z][A-Z0-9_]*) (\d+)(?:mW)?/\d+(?:mW)?(?!\S)")


def rails_of(line: str) -> dict[str, float]:
    """Return the power of each rail that a line tells, in watts."""
    return {rail: int(milliwatts) / 1e3 for rail, milliwatts in _RAIL.findall(line)}


class Tegrastats:
    """The program, which a thread reads as it goes; it ends when nobody reads it any more."""

    counts = False
    range_j = 0.0

    def __init__(self, program: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Start it and wait for a line with rails; the first of all does only if no other comes: it may be cut short.

        Raises:
            OSError: it cannot be started.
            ValueError: it tells no power.
        """
        command = [program, "--interval", str(EVERY_MS)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self._clock = clock
        self._newest, self._came_at = "", clock()
        self._has_come = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tegrastats", daemon=True)
        self._thread.start()
        self._has_come.wait(WAIT_S)
        self._rails = whole(rails_of(self._newest))
        self.name = f"tegrastats {' + '.join(self._rails)}"
        if not self._rails:
            self.close()
            raise ValueError(f"no power in what it says, {self._newest[:80]!r}")

    def read(self) -> float:
        """Return watts by the newest line.

        Raises:
            OSError: it has ended, or says nothing more.
            ValueError: its newest line has no power.
        """
        if self._process.poll() is not None:
            raise OSError("tegrastats has ended")
        if (quiet_s := self._clock() - self._came_at) > WAIT_S:
            raise OSError(f"tegrastats has said nothing for {quiet_s:.0f} s")
        rails = rails_of(self._newest)
        if missing := [rail for rail in self._rails if rail not in rails]:
            raise ValueError(f"tegrastats: no power of {', '.join(missing)}")
        return sum(rails[rail] for rail in self._rails)

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for number, line in enumerate(lines):
                self._newest, self._came_at = line, self._clock()
                if number and rails_of(line):
                    self._has_come.set()
        self._has_come.set()


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
