"""The aggregator's keeper, with a real aggregator that runs the `pairs` method, and is killed now and then."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from coordinator.aggregator.half import Aggregate, Closing, Contributions, RoundUnusableError, ServerHalfError
from coordinator.aggregator.server_half import MAX_ATTEMPTS, ServerHalf
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from tests.integration.plugins import pairs
from wire.encoding import Packed, pack, unpack
from wire.sockets.memory import peak_rss_bytes

WAIT_S = 20.0

Contribution = tuple[str, int, Packed]

SPEC = RunSpec(
    run_id="pairs-1",
    seed=0,
    num_rounds=3,
    method="pairs:METHOD",
    method_config={},
    classes=["a", "b", "c"],
    data=DataConfig(),
    model=ModelConfig(feature_dim=4),
    training=TrainingConfig(),
    evaluation=EvaluationConfig(),
    wire=WireConfig(),
)


@dataclasses.dataclass
class Bench:
    """A server half for one test, and the gates of its aggregator."""

    folder: Path
    answer_s: float = WAIT_S
    feature_dim: int = 4

    def shut(self, exchange: str, how: str) -> None:
        """Hold the aggregator up in this exchange; see `pairs`."""
        (self.folder / f"server-{exchange}").write_text(how)

    async def see(self, exchange: str) -> None:
        """Wait until the aggregator is at its gate."""

        async def poll() -> None:
            while not (self.folder / f"server-{exchange}.here").exists():
                await asyncio.sleep(0.01)

        await asyncio.wait_for(poll(), WAIT_S)

    def open(self, exchange: str) -> None:
        """Let it go on."""
        (self.folder / f"server-{exchange}").unlink()

    def run(self, main: Callable[[ServerHalf], Coroutine[Any, Any, None]]) -> None:
        """Run a test's coroutine; the aggregator is stopped at its end."""
        spec = msgspec.structs.replace(
            SPEC, model=ModelConfig(feature_dim=self.feature_dim), method_config={"gates": str(self.folder)}
        )
        modules = Path(pairs.__file__).parent
        half = ServerHalf(msgspec.to_builtins(spec), modules, self.folder / "log.txt", 1, self.answer_s)

        async def whole() -> None:
            try:
                await main(half)
            finally:
                await half.stop()
            assert aggregators() == []

        asyncio.run(whole())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give a test its server half."""
    return Bench(tmp_path)


def aggregators() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "coordinator.aggregator" in child.cmdline()]


def sums(numbers: Iterable[int], width: int = 4) -> Callable[[], list[Contribution]]:
    """Return contributions to the first exchange, of clients with one sample each."""
    records = [pairs.Sums(np.full(width, number, np.float32), np.ones(1, np.uint32)) for number in numbers]
    return lambda: [(f"client-{index}", 1, pack(record.to_payload("f32"))) for index, record in enumerate(records)]


def closing(round: int, contributions: Contributions, count: int, following: tuple[int, str] | None = None) -> Closing:
    return Closing(round, "sums", contributions, count, following)


def means_of(made: Aggregate) -> list[float]:
    found: list[float] = unpack(made.state).arrays["means"].tolist()
    return found


def test_it_gives_constants_downlinks_and_states(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        (constant,) = await half.begin(None, wants_constants=True)
        assert (constant.name, len(constant.digest)) == ("offset", 64)
        state, start = half.state, half.global_hash
        assert state is None
        assert (await half.configure(1, "sums")).sizes.payload_bytes == 0
        made = await half.aggregate(closing(1, sums([1, 5]), 2))
        assert means_of(made) == [3.0] * 4
        assert made.metrics == {"weight": 2.0}
        assert half.state == made.state
        assert half.global_hash == made.global_hash != start
        assert unpack(await half.configure(1, "echoes")).arrays["means"].tolist() == [3.0] * 4
        assert await half.begin(None) == []
        assert half.global_hash == start
        assert (peak_rss_bytes(half.pid) or 0) > 10e6

    bench.run(main)


def test_it_goes_back_to_an_earlier_state(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        earlier = await half.aggregate(closing(1, sums([1]), 1))
        later = await half.aggregate(closing(2, sums([2]), 1))
        assert earlier.global_hash != later.global_hash
        await half.begin(earlier.state)
        assert half.global_hash == earlier.global_hash
        again = await half.aggregate(closing(2, sums([2]), 1))
        assert (again.global_hash, again.state) == (later.global_hash, later.state)

    bench.run(main)


def test_an_aggregator_killed_between_questions_is_started_again_with_its_state(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        made = await half.aggregate(closing(1, sums([1, 2]), 2))
        (aggregator,) = aggregators()
        aggregator.kill()
        aggregator.wait(WAIT_S)
        assert unpack(await half.configure(1, "echoes")).arrays["means"].tolist() == [1.5] * 4
        assert half.global_hash == made.global_hash

    bench.run(main)


FOLLOWING = (1, "echoes")


@pytest.mark.parametrize("killed", [False, True])
def test_the_downlink_that_follows_is_made_with_the_aggregate_that_it_needs(bench: Bench, killed: bool) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        made = await half.aggregate(closing(1, sums([1, 2]), 2, FOLLOWING))
        if killed:
            (aggregator,) = aggregators()
            aggregator.kill()
            aggregator.wait(WAIT_S)
        assert unpack(await half.configure(*FOLLOWING)).arrays["means"].tolist() == means_of(made) == [1.5] * 4

    bench.run(main)


def test_a_downlink_that_does_not_follow_after_all_is_nobodys_answer(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        made = await half.aggregate(closing(1, sums([1, 2]), 2, FOLLOWING))
        assert (await half.configure(2, "sums")).sizes.payload_bytes == 0
        with pytest.raises(RoundUnusableError):
            await half.aggregate(closing(2, sums([]), 0, FOLLOWING))
        await half.begin(made.state)
        assert means_of(await half.aggregate(closing(2, sums([4]), 1))) == [4.0] * 4
        assert unpack(await half.configure(*FOLLOWING)).arrays["means"].tolist() == [4.0] * 4

    bench.run(main)


def test_an_aggregator_killed_at_work_is_asked_once_more(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        bench.shut("sums", "sleep")
        asked = asyncio.ensure_future(half.aggregate(closing(1, sums([1, 2]), 2)))
        await bench.see("sums")
        aggregators()[0].kill()
        bench.open("sums")
        assert means_of(await asyncio.wait_for(asked, WAIT_S)) == [1.5] * 4

    bench.run(main)


def test_a_round_that_cannot_be_used_is_no_failure_of_the_method(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        with pytest.raises(RoundUnusableError, match="the total weight is 0"):
            await half.aggregate(closing(1, sums([]), 0))
        bench.shut("sums", "fail")
        with pytest.raises(RoundUnusableError, match="the gate says so"):
            await half.aggregate(closing(1, sums([1, 2, 3]), 3))
        assert half.state is None
        assert means_of(await half.aggregate(closing(1, sums([4]), 1))) == [4.0] * 4

    bench.run(main)


def test_an_error_of_the_method_is_told_as_such(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        with pytest.raises(ServerHalfError, match="ValueError: operands could not be broadcast"):
            await half.aggregate(closing(1, sums([1], width=5), 1))

    bench.run(main)


def test_an_aggregator_that_always_dies_is_given_up(bench: Bench) -> None:
    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        bench.shut("sums", "die")
        with pytest.raises(ServerHalfError, match=rf"died {MAX_ATTEMPTS} times: ended with exit code 1"):
            await half.aggregate(closing(1, sums([1]), 1))

    bench.run(main)


@pytest.mark.parametrize("width", [4, 1_000_000])
def test_no_answer_is_not_waited_for_without_end(bench: Bench, width: int) -> None:
    """Whether the contributions fit the pipe, or there is a wait for them to be read as well."""
    bench.answer_s, bench.feature_dim = 3.0, width

    async def main(half: ServerHalf) -> None:
        await half.begin(None)
        bench.shut("sums", "sleep")
        with pytest.raises(ServerHalfError, match="gave no answer within 3 s"):
            await asyncio.wait_for(half.aggregate(closing(1, sums([1, 2], width), 2)), WAIT_S)

    bench.run(main)
