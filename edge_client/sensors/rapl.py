"""RAPL: the energy counters of x86 processors and of their memory, by the powercap files; root alone may read them."""

from __future__ import annotations

from pathlib import Path

from edge_client.sensors.energy import NoSensorError

FOLDER = "sys/class/powercap"


class Zone:
    """The counter of one zone."""

    counts = True

    def __init__(self, folder: Path, name: str) -> None:
        """Begin to use it.

        Raises:
            OSError: it may not be read.
        """
        self.name = f"rapl {name}"
        self._counter = folder / "energy_uj"
        self.range_j = float((folder / "max_energy_range_uj").read_text()) / 1e6
        self.read()

    def read(self) -> float:
        """Return joules since some moment, below `range_j`."""
        return float(self._counter.read_text()) / 1e6


def find(root: Path) -> list[Zone]:
    """Return the zones of all packages, and of memory where that has its own.

    Raises:
        NoSensorError: there are none, or they may not be read.
    """
    zones = []
    for folder in sorted((root / FOLDER).glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text().strip()
            if name.startswith("package") or name == "dram":
                zones.append(Zone(folder, f"{name} of {folder.name}"))
        except OSError as error:
            advice = f"chmod a+r /{FOLDER}/intel-rapl:*/energy_uj" if isinstance(error, PermissionError) else ""
            raise NoSensorError(f"RAPL: {folder.name}: {error.strerror}", advice) from None
    if not zones:
        raise NoSensorError("no RAPL in /sys/class/powercap")
    return zones
