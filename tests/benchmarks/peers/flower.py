"""What both of Flower's contenders have in common: where they run, and a server that notes its rounds in a file."""

from __future__ import annotations

import numpy as np

from tests.benchmarks.peers import marks
from tests.benchmarks.peers.contender import Contender, Rounds, Setting
from tests.benchmarks.peers.installed import ROOT
from tests.benchmarks.peers.processes import PeerError


class Flower(Contender):
    """A contender whose server writes `marks`."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.marks_path = self.folder / "marks"

    def variables(self) -> dict[str, str]:
        """Keep Flower from reporting, and from the files of others on this machine; let it import this project."""
        return {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}

    def num_closed(self) -> int:
        """Return how many rounds its server has noted."""
        return len(marks.read(self.marks_path))

    def rounds(self) -> Rounds:
        """Return what its server has noted; `PeerError` if a round lacks results."""
        noted = marks.read(self.marks_path)
        fewest = min((mark.num_results for mark in noted), default=0)
        if fewest < self.setting.num_clients:
            raise PeerError(f"expected results of {self.setting.num_clients} clients in every round, got {fewest}")
        took_ms = [1000 * (mark.came_s - mark.sent_s) for mark in noted]
        median_ms, p95_ms = map(float, np.percentile(took_ms, [50, 95]))
        return Rounds(len(took_ms), median_ms, p95_ms, None)
