"""What both of Flower's contenders have in common: where they run."""

from __future__ import annotations

from tests.benchmarks.peers.contender import Contender, Setting
from tests.benchmarks.peers.installed import ROOT


class Flower(Contender):
    """A contender with a home of its own."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.home = self.folder / "home"
        self.home.mkdir()

    def variables(self) -> dict[str, str]:
        """Keep Flower from reporting, and from the files of others on this machine; let it import this project."""
        return {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}
