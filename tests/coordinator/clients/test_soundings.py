"""Soundings are answered with no more than came, and not more often than is good for the coordinator."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.clients.soundings import Soundings
from wire.encoding import EMPTY_PACKED, Packed, decode, encoded_bytes, pack
from wire.limits import MAX_ARRAYS, MAX_SOUNDING_BYTES, SOUNDINGS_PER_MINUTE
from wire.messages import Echo, Sounding
from wire.payload import Payload, Tensor
from wire.version import PROTOCOL_VERSION

OURS = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)


def filler(size_bytes: int) -> Packed:
    return pack(Payload({"filler": Tensor("u8", np.zeros(size_bytes, np.uint8))}))


class Asked:
    """A coordinator's soundings, at a time that a test sets."""

    def __init__(self) -> None:
        self.at = 0.0
        self._soundings = Soundings(lambda: self.at, lambda: 1_798_761_600.5)

    def echo(self, client: str = "a", returns: bool = False, packed: Packed = EMPTY_PACKED) -> tuple[Echo, int] | None:
        frames = self._soundings.echo(client, Sounding(OURS, 7, returns), packed, len(packed.buffer))
        if not frames:
            return None
        message, came = decode(frames)
        assert isinstance(message, Echo)
        assert came is not None
        return message, len(came.buffer)


def test_the_echo_says_whose_key_it_is_and_what_time_it_is_there() -> None:
    assert Asked().echo("client-3") == (Echo(OURS, 7, "client-3", 1_798_761_600.5), 0)


@pytest.mark.parametrize(("returns", "came"), [(True, 1000), (False, 0)])
def test_the_payload_comes_back_if_that_is_asked(returns: bool, came: int) -> None:
    echo = Asked().echo(returns=returns, packed=filler(1000))
    assert echo is not None
    assert echo[1] == came


def test_an_echo_is_hardly_longer_than_its_sounding() -> None:
    asked, sent = Soundings(), filler(500)
    frames = asked.echo("client-3", Sounding(OURS, 7, True), sent, 500)
    assert encoded_bytes(frames) <= 500 + 64


def test_one_that_is_too_long_gets_none() -> None:
    asked = Asked()
    assert asked.echo(returns=True, packed=filler(MAX_SOUNDING_BYTES)) is not None
    assert asked.echo(returns=True, packed=filler(MAX_SOUNDING_BYTES + 1)) is None


def test_only_so_many_are_answered_within_a_minute_each_client_for_itself() -> None:
    asked = Asked()
    echoes = [asked.echo() for _ in range(SOUNDINGS_PER_MINUTE + 1)]
    assert [echo is None for echo in echoes] == [False] * SOUNDINGS_PER_MINUTE + [True]
    assert asked.echo("b") is not None
    asked.at = 60.0
    assert asked.echo() is not None


def test_one_of_as_many_arrays_as_there_may_be_is_answered_as_well() -> None:
    crowd = pack(Payload({f"{number:x}": Tensor("u8", np.zeros(0, np.uint8)) for number in range(MAX_ARRAYS)}))
    assert Asked().echo(returns=True, packed=crowd) is not None
