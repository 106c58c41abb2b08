"""The clerk: what it makes of orders, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator import privacy
from models.spec import ConfigError
from tests.coordinator.service.in_process import settings, standing, submitted


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("clerk")


def test_a_run_whose_noise_cannot_be_accounted_for_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            with pytest.raises(ConfigError, match="noise_multiplier = 4: expected dp-accounting"):
                await submitted(service, "method.name=headcal", "privacy.noise_multiplier=4.0")
            assert service.queue.entries == []

    monkeypatch.setattr(privacy, "find_spec", lambda name: None)
    asyncio.run(main())
