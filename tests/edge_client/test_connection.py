"""A connection of the client's daemon: what it sends in which form, and how it says that it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zmq

from edge_client import connection
from edge_client.connection import Connection
from edge_client.keys import Keys
from tests.edge_client.session_driver import task
from wire.encoding import encode, pack
from wire.framing import joined
from wire.payload import EMPTY
from wire.sockets.endpoint import Context
from wire.sockets.keys import make_pair
from wire.sockets.zeromq import LinkEnd

KEYS = Keys(make_pair(), make_pair().public)
BROKEN_OFF = ("the handshake was broken off", LinkEnd.BROKEN_OFF)


@pytest.fixture
def lost() -> list[tuple[str, LinkEnd]]:
    """Return what is told of the connection's end."""
    return []


@contextlib.contextmanager
def connected(
    lost: list[tuple[str, LinkEnd]], keys: Keys | None = KEYS, host: str = "127.0.0.1"
) -> Iterator[Connection]:
    """Have a connection to somebody who never says a word."""
    context: Context = zmq.Context(io_threads=1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"{host}:{mute.getsockname()[1]}"
        made = Connection(context, address, keys, lambda parts: None, lambda *told: lost.append(told))
        yield made
        made.close()
        context.destroy(linger=0)


def answers(mechanism: str) -> Callable[[str], Awaitable[str]]:
    """Return what knocks at a port that greets with this mechanism."""

    async def knock(address: str) -> str:
        return mechanism

    return knock


async def never(_: str) -> Any:
    await asyncio.sleep(60.0)


def test_a_name_is_looked_up_no_longer_than_its_connection_is_wanted(
    lost: list[tuple[str, LinkEnd]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> bool:
        with connected(lost) as made:
            await asyncio.sleep(0)
        await asyncio.wait([made._looking_up], timeout=0.01)
        return made._looking_up.cancelled()

    monkeypatch.setattr(connection, "look_up", never)
    assert asyncio.run(main())


def test_a_name_that_is_not_found_is_told(lost: list[tuple[str, LinkEnd]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(host: str) -> list[str]:
        raise OSError(2, "Name or service not known")

    async def main() -> None:
        with connected(lost, host="nowhere.invalid"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(connection, "look_up", fail)
    asyncio.run(main())
    assert lost == [("nowhere.invalid does not resolve: Name or service not known", LinkEnd.GONE)]


@pytest.mark.parametrize(
    ("keys", "greets_with", "told"),
    [
        (KEYS, "CURVE", BROKEN_OFF),
        (KEYS, "", (BROKEN_OFF[0], LinkEnd.GONE)),
        (KEYS, "NULL", ("connections are encrypted here and not there", LinkEnd.REFUSED)),
        (None, "CURVE", ("connections are not encrypted here and encrypted there", LinkEnd.REFUSED)),
    ],
)
def test_a_handshake_that_is_broken_off_is_looked_at_closer(
    lost: list[tuple[str, LinkEnd]],
    keys: Keys | None,
    greets_with: str,
    told: tuple[str, LinkEnd],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        with connected(lost, keys) as made:
            made._on_end(*BROKEN_OFF)
            assert made._looking_closer is not None
            await made._looking_closer

    monkeypatch.setattr(connection, "mechanism_at", answers(greets_with))
    asyncio.run(main())
    assert lost == [told]


def test_while_it_is_looked_at_closer_a_welcome_is_not_given_up(
    lost: list[tuple[str, LinkEnd]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with connected(lost) as made:
            assert made.quiet_s() is None
            made._on_end(*BROKEN_OFF)
            assert made.quiet_s() == 0.0

    monkeypatch.setattr(connection, "mechanism_at", never)
    asyncio.run(main())
    assert lost == []


def test_an_update_is_joined_as_soon_as_a_joined_message_came(lost: list[tuple[str, LinkEnd]]) -> None:
    sent: list[list[bytes]] = []

    async def main() -> None:
        with connected(lost, keys=None) as made:
            to_peer = SimpleNamespace(send=lambda parts, may_lapse: sent.append(list(parts)), close=made.dealer.close)
            made.dealer = cast("Any", to_peer)
            came = [bytes(frame) for frame in encode(task(), pack(EMPTY))]
            for parts in (came, joined(came, False), came):  # the first as a coordinator of 1.3 sends it
                made._on_parts(parts)
                made.send([b"header", b"buffer"])

    asyncio.run(main())
    plain, other = [b"header", b"buffer"], joined([b"header", b"buffer"], False)
    assert sent == [plain, other, other]
