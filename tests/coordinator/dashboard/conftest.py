"""The live page shows what a report shows."""

from tests.coordinator.report.conftest import run

__all__ = ["run"]
