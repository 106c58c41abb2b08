"""Names of hosts: found, not found, or not in time."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from wire.sockets import names
from wire.sockets.names import look_up


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_its_own(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("nobody needs to be asked"))
    assert asyncio.run(look_up(address)) == [address]


def test_a_name_has_its_addresses_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    assert asyncio.run(look_up("server")) == ["10.0.0.1", "10.0.0.2"]


def test_a_name_that_is_unknown_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OSError, match="Name or service not known"):
        asyncio.run(look_up("nowhere"))


def test_what_can_be_no_name_says_so() -> None:
    with pytest.raises(OSError, match="no name that there could be"):
        asyncio.run(look_up("x" * 64 + ".org"))


def test_a_name_service_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(names, "LOOK_UP_S", 0.02)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answered.wait(5) and [])
    with pytest.raises(OSError, match=r"no answer from the name service within 0\.02 s"):
        asyncio.run(look_up("slow"))
    answered.set()
