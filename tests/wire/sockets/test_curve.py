"""Encrypted connections: who is let in, what each end hears of those who are not, and what a message costs."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Coroutine, Iterator

import pytest
import zmq

from tests.integration.proxy import Proxy
from wire.framing import MAX_ADDED_BYTES, framed_bytes, joined
from wire.sockets import zeromq
from wire.sockets.endpoint import Context, Parts
from wire.sockets.gatekeeper import Gatekeeper
from wire.sockets.keys import KeyPair, make_pair
from wire.sockets.knock import mechanism_at
from wire.sockets.zeromq import ANYONE, Dealer, LinkEnd, Router

WAIT_S = 10.0
LIMIT = 1 << 20
OURS, ENROLLED, STRANGER = make_pair(), make_pair(), make_pair()


class Port:
    """A router with its gatekeeper, who knows one key, and all that came to it; an open one has neither."""

    def __init__(self, context: Context, is_encrypted: bool) -> None:
        self.context = context
        self.came: list[tuple[str, list[bytes]]] = []
        self.asked: list[tuple[str, str]] = []
        self.failed: list[str] = []
        self.lost: list[tuple[str, LinkEnd]] = []
        self._ends: list[Gatekeeper | Router | Dealer] = []
        if is_encrypted:
            self._ends.append(Gatekeeper(context, self._may_enter))
        own = OURS if is_encrypted else None
        self.router = Router(
            context, "127.0.0.1:0", LIMIT, self._take, self._take_failure, lambda route, counters: None, own
        )
        self._ends.append(self.router)

    def dealer(self, own: KeyPair | None, server_key: str = OURS.public, address: str = "") -> Dealer:
        address = address or self.router.address
        made = Dealer(self.context, address, LIMIT, lambda frames: None, self._take_loss, own, server_key)
        self._ends.append(made)
        return made

    def close(self) -> None:
        for end in reversed(self._ends):
            end.close()

    def _may_enter(self, key: str, address: str) -> bool:
        self.asked.append((key, address))
        return key == ENROLLED.public

    def _take_failure(self, kind: str, text: str) -> None:
        self.failed.append(kind)

    def _take(self, route: bytes, key: str, parts: Parts) -> None:
        self.came.append((key, list(map(bytes, parts))))

    def _take_loss(self, reason: str, end: LinkEnd) -> None:
        self.lost.append((reason, end))


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context(io_threads=1)
    yield made
    made.destroy(linger=0)


def run(context: Context, main: Callable[[Port], Coroutine[None, None, None]], is_encrypted: bool = True) -> Port:
    """Run a test's coroutine with a port, and return it."""

    async def with_port() -> Port:
        port = Port(context, is_encrypted)
        try:
            await main(port)
        finally:
            port.close()
        return port

    return asyncio.run(with_port())


async def until(found: Callable[[], object]) -> None:
    async def poll() -> None:
        while not found():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(poll(), WAIT_S)


def test_an_enrolled_client_is_known_by_its_key_with_every_message(context: Context) -> None:
    async def main(port: Port) -> None:
        dealer = port.dealer(ENROLLED)
        for content in ([b"one"], [b"two", b"", bytes(100_000)]):
            dealer.send(content)
        await until(lambda: len(port.came) == 2)

    port = run(context, main)
    assert port.came == [(ENROLLED.public, [b"one"]), (ENROLLED.public, [b"two", b"", bytes(100_000)])]
    assert port.asked == [(ENROLLED.public, "127.0.0.1")]
    assert (port.failed, port.lost) == ([], [])


def test_a_part_of_the_size_of_the_limit_passes_and_a_larger_one_does_not(context: Context) -> None:
    async def main(port: Port) -> None:
        port.dealer(ENROLLED).send([bytes(LIMIT)])
        await until(lambda: port.came)
        port.dealer(ENROLLED).send([bytes(LIMIT + MAX_ADDED_BYTES + 64)])
        await until(lambda: port.lost)

    assert len(run(context, main).came) == 1


async def refused(port: Port, dealer: Dealer) -> None:
    """See a client lose its connection without a message arriving."""
    dealer.send([b"hello"])
    await until(lambda: port.lost)
    await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("own", "server_key", "end", "told", "failed"),
    [
        (STRANGER, OURS.public, LinkEnd.REFUSED, "not enrolled there, was revoked or has expired", []),
        (ENROLLED, STRANGER.public, LinkEnd.BROKEN_OFF, "broken off", ["server_key"]),
        (None, "", LinkEnd.REFUSED, "connections are not encrypted here and encrypted there", ["plaintext"]),
    ],
    ids=["not enrolled", "another server key", "plaintext"],
)
def test_both_ends_hear_why(
    context: Context, own: KeyPair | None, server_key: str, end: LinkEnd, told: str, failed: list[str]
) -> None:
    async def main(port: Port) -> None:
        await refused(port, port.dealer(own, server_key))

    port = run(context, main)
    ((reason, what),) = port.lost
    assert what is end
    assert told in reason
    assert (port.came, port.failed) == ([], failed)


def test_an_encrypted_client_is_told_that_an_open_port_is_none(context: Context) -> None:
    async def main(port: Port) -> None:
        await refused(port, port.dealer(ENROLLED))

    port = run(context, main, is_encrypted=False)
    ((reason, what),) = port.lost
    assert (what, reason) == (LinkEnd.REFUSED, "connections are encrypted here and not there")
    assert port.failed == ["encrypted"]


def test_a_message_to_an_open_port_is_from_anyone(context: Context) -> None:
    async def main(port: Port) -> None:
        port.dealer(None).send([b"hello"])
        await until(lambda: port.came)

    assert run(context, main, is_encrypted=False).came == [(ANYONE, [b"hello"])]


JUNK = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x01\x00\x06\x00hello", b"\xff" * 64, bytes(range(256)) * 16]


def test_junk_is_never_a_message_and_holds_up_nobody(context: Context) -> None:
    async def main(port: Port) -> None:
        host, _, number = port.router.address.rpartition(":")
        held = [socket.create_connection((host, int(number))) for _ in JUNK * 10]
        for content, connection in zip(JUNK * 10, held, strict=True):
            connection.sendall(content)
        port.dealer(ENROLLED).send([b"hello"])
        await until(lambda: port.came)
        for connection in held:
            connection.close()

    assert run(context, main).came == [(ENROLLED.public, [b"hello"])]


def test_a_peer_of_the_first_zmtp_speaks_on_an_open_port_and_holds_up_nobody(context: Context) -> None:
    async def main(port: Port) -> None:
        host, _, number = port.router.address.rpartition(":")
        for _ in range(3):
            with socket.create_connection((host, int(number))) as connection:
                connection.sendall(b"\x01\x00\x06\x00hello" + b"\x03\x00no" * 5)
        port.dealer(None).send([b"yes"])
        await until(lambda: len(port.came) == 19)

    port = run(context, main, is_encrypted=False)
    assert sorted(frames for _, frames in port.came) == [[b"hello"]] * 3 + [[b"no"]] * 15 + [[b"yes"]]
    assert {key for key, _ in port.came} == {ANYONE}


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_peer_that_takes_too_long_over_its_handshake_is_ended(
    context: Context, is_encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeromq, "HANDSHAKE_MS", 50)

    async def main(port: Port) -> None:
        host, _, number = port.router.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(number))
        writer.write(b"\xff")
        await asyncio.wait_for(reader.read(), WAIT_S)
        await until(lambda: port.failed)
        writer.close()

    assert run(context, main, is_encrypted).failed == ["unfinished"]


def test_the_bytes_on_the_wire_are_those_that_are_counted(context: Context) -> None:
    """What each message adds: the handshake comes before the first."""
    messages = (
        [b"first"],
        [bytes(222)],
        [bytes(223)],
        [bytes(10), bytes(5000), bytes(52)],
        [b"header", bytes(600_000)],
    )

    async def main(port: Port) -> None:
        with Proxy(port.router.address) as proxy:
            dealer = port.dealer(ENROLLED, address=proxy.address)
            sent = []
            for frames in messages:
                before = len(port.came)
                dealer.send(joined(frames, is_encrypted=True))
                await until(lambda before=before: len(port.came) > before)  # type: ignore[misc]
                sent.append(proxy.num_bytes_up)
        added = [after - before for before, after in itertools.pairwise(sent)]
        assert added == [framed_bytes(frames, is_encrypted=True) for frames in messages[1:]]

    run(context, main)


# Knocking


def test_a_knock_tells_a_port_that_encrypts_from_nobody(context: Context) -> None:
    async def main(port: Port) -> None:
        assert await mechanism_at(port.router.address) == "CURVE"
        with Proxy() as nobody_behind:
            assert await mechanism_at(nobody_behind.address) == ""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            closed = "{}:{}".format(*listener.getsockname())
        assert await mechanism_at(closed) == ""

    run(context, main)


def test_a_knock_goes_to_the_address_that_zeromq_takes_by_no_thread_that_an_end_would_wait_for(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(host: str, port: object, family: int, *_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        assert (host, family) == ("server", socket.AF_INET)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    async def main(port: Port) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", found)
        monkeypatch.setattr(
            asyncio.get_running_loop(), "run_in_executor", lambda *_: pytest.fail("a thread to wait for")
        )
        assert await mechanism_at(f"server:{port.router.address.rpartition(':')[2]}") == "CURVE"

    run(context, main)


def test_a_knock_tells_a_port_that_does_not_encrypt(context: Context) -> None:
    async def main(port: Port) -> None:
        assert await mechanism_at(port.router.address) == "NULL"

    run(context, main, is_encrypted=False)
