"""An aggregator that waits for a run: given away once, and as good as one that the run has started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from coordinator.aggregator.server_half import ServerHalf
from coordinator.service.spare import SpareAggregator
from tests.coordinator.hall import SPEC


def test_the_first_run_of_one_thread_takes_the_spare(tmp_path: Path) -> None:
    async def main() -> None:
        spare = SpareAggregator(tmp_path / "aggregator.log")
        assert spare.take() is None
        await spare.prepare()
        await spare.prepare()
        half, other = (
            ServerHalf(msgspec.to_builtins(SPEC), tmp_path, tmp_path / "log.txt", threads, 20.0, spare.take)
            for threads in (1, 2)
        )
        try:
            await other.begin(None)  # wants two threads, which the spare has not
            await half.begin(None)
            assert spare.take() is None
            assert half.global_hash == other.global_hash
        finally:
            for each in (half, other, spare):
                await each.stop()

    asyncio.run(main())


def test_one_that_is_not_taken_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        spare = SpareAggregator(tmp_path / "aggregator.log")
        await spare.prepare()
        await spare.stop()
        assert spare.take() is None

    asyncio.run(main())
