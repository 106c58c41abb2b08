"""Acknowledgements that wait for a task to make them needless."""

from __future__ import annotations

import asyncio

import pytest

from coordinator import acks as module
from coordinator.acks import Acks
from wire.messages import Ack

ACK = Ack(7, 1, 0)


class Sent:
    """What was sent to whom, and when."""

    def __init__(self) -> None:
        self.to: list[str] = []
        self.at: dict[str, float] = {}

    def __call__(self, client: str, ack: Ack) -> None:
        self.to.append(client)
        self.at[client] = asyncio.get_running_loop().time()


def test_what_is_dropped_is_not_sent_and_another_one_still_has_all_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACK_AFTER_S", 0.05)

    async def main() -> tuple[Sent, float]:
        sent = Sent()
        waiting = Acks(sent, {})
        waiting.put("a", ACK)
        await asyncio.sleep(0.03)
        waiting.drop("a")
        waiting.put("b", ACK)
        put_at = asyncio.get_running_loop().time()
        while not sent.to:
            await asyncio.sleep(0.005)
        return sent, put_at

    sent, put_at = asyncio.run(main())
    assert sent.to == ["b"]
    assert sent.at["b"] >= put_at + 0.05


def test_those_that_are_due_are_sent_in_their_order_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACK_AFTER_S", 0.01)

    async def main() -> Sent:
        sent = Sent()
        waiting = Acks(sent, {})
        for client in ("b", "a", "c", "b"):
            waiting.put(client, ACK)
        while len(sent.to) < 3:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.02)
        return sent

    assert asyncio.run(main()).to == ["a", "c", "b"]


def test_at_the_end_of_a_run_none_waits_any_longer() -> None:
    async def main() -> Sent:
        sent = Sent()
        waiting = Acks(sent, {})
        waiting.put("a", ACK)
        waiting.send_all()
        waiting.send_all()
        return sent

    assert asyncio.run(main()).to == ["a"]


def test_of_each_client_the_last_update_that_is_durable_is_known() -> None:
    async def main() -> None:
        waiting = Acks(Sent(), {"a": (1, 0), "b": (1, 0)})
        assert waiting.is_durable("a", 1, 0)
        waiting.put("a", Ack(7, 2, 0))
        waiting.drop("a")
        assert [waiting.is_durable("a", round, 0) for round in (1, 2)] == [False, True]
        assert [waiting.is_durable("b", 1, exchange) for exchange in (0, 1)] == [True, False]
        assert not waiting.is_durable("c", 1, 0)

    asyncio.run(main())
