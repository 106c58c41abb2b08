"""Who is heard, whoever greets."""

from __future__ import annotations

import pytest

from coordinator.greeting import pass_time, speaker
from coordinator.membership import Lost, Membership


@pytest.mark.parametrize(
    ("route", "owner", "client"),
    [(b"1", None, "a"), (b"1", "a", "a"), (b"1", "b", None), (b"2", None, None), (b"2", "a", None)],
)
def test_a_connection_speaks_for_the_owner_of_its_key_alone(
    route: bytes, owner: str | None, client: str | None
) -> None:
    membership = Membership(5.0)
    membership.hello("a", b"1", 1, 0.0)
    assert speaker(membership, route, owner) == client


def test_who_is_in_the_middle_of_a_long_message_is_not_silent() -> None:
    membership = Membership(5.0)
    for client in ("a", "b"):
        membership.hello(client, client.encode(), 1, 0.0)
    assert pass_time(membership, {b"a": 1.0}.get, 20.0) == [Lost("b", "silent for 20.0 s")]
