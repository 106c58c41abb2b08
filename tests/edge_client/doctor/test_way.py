"""The way to a coordinator's door, from the name down to the bandwidth; none of it takes part in a run."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import zmq

from coordinator.clients.door import Arrival, Door
from coordinator.clients.enrolment import Enrolment
from coordinator.clients.keys import Keys as CoordinatorKeys
from coordinator.clients.soundings import Soundings
from coordinator.clients.turned_away import TurnedAway
from coordinator.config import TransportSection
from edge_client.doctor import line, way
from edge_client.doctor.finding import Finding, exit_code
from edge_client.doctor.line import Heard, Line, SilentError
from edge_client.doctor.way import NUM_LONG, NUM_SOUNDINGS, examine_way
from edge_client.keys import Keys
from wire.encoding import Packed, pack
from wire.exit_codes import ExitCode
from wire.limits import SOUNDINGS_PER_MINUTE
from wire.messages import Echo
from wire.payload import EMPTY
from wire.sockets.endpoint import Context
from wire.sockets.keys import KeyPair, make_pair

COORDINATOR, ENROLLED, STRANGER = make_pair(), make_pair(), make_pair()
TRANSPORT = TransportSection(bind="127.0.0.1:0", max_message_bytes=64 * 1024)
OURS = Keys(ENROLLED, COORDINATOR.public)

ALL = ["name", "port", "greeting", "enrolment", "clock", "round trip", "bandwidth"]


async def walked(address: str, keys: Keys | None = OURS, client: str = "a", knows: bool = True) -> list[Finding]:
    return await examine_way(address, keys, client, knows)


def examined(
    keys: Keys | None = OURS,
    client: str = "a",
    knows: bool = True,
    own: KeyPair | None = COORDINATOR,
    name: str = "127.0.0.1",
    turned_away: TurnedAway | None = None,
) -> list[Finding]:
    """Walk to a door that knows one key, that of client `a`; it must hear of no arrival."""
    arrivals: list[Arrival] = []

    async def walk() -> list[Finding]:
        theirs = CoordinatorKeys(own, Enrolment.of({"a": ENROLLED.public})) if own is not None else None
        counted = turned_away or TurnedAway({}, lambda text: None)
        door = Door(
            TRANSPORT, theirs, arrivals.append, lambda route, reason: None, counted, lambda route, counters: None
        )
        try:
            return await walked(door.address.replace("127.0.0.1", name), keys, client, knows)
        finally:
            door.close()

    findings = asyncio.run(walk())
    assert arrivals == []
    return findings


def test_an_enrolled_device_hears_of_clock_and_speed() -> None:
    findings = examined()
    assert [(finding.name, finding.level) for finding in findings] == [(name, "ok") for name in ALL]
    figures = {key: value for finding in findings for key, value in finding.figures.items()}
    assert all(figures[key] is not None for key in ("connect_s", "behind_s", "uncertainty_s", "round_trip_s"))
    assert figures.keys() >= {"up_bytes_per_s", "least_down_bytes_per_s"}


@pytest.mark.parametrize("own", [COORDINATOR, None])
def test_a_look_is_one_handshake_that_was_not_finished_and_no_more(own: KeyPair | None) -> None:
    turned_away = TurnedAway({}, lambda text: None)
    assert exit_code(examined(OURS if own else None, own=own, turned_away=turned_away)) == ExitCode.FINISHED
    assert turned_away.counts == {"unfinished": 1}


def test_without_encryption_on_both_sides_no_keys_are_needed() -> None:
    findings = examined(keys=None, own=None)
    assert [finding.name for finding in findings] == ALL
    assert findings[3].told.startswith("let in without keys")


def test_a_clock_that_is_off_is_told_which_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.clients.door.Soundings", lambda: Soundings(wall_clock=lambda: 0.0))
    (clock,) = (finding for finding in examined() if finding.name == "clock")
    assert "ahead of the coordinator's" in clock.told
    assert "timedatectl" in clock.advice
    assert clock.code == ExitCode.FINISHED


@pytest.mark.parametrize(
    ("keys", "client", "told", "advice"),
    [
        (Keys(STRANGER, COORDINATOR.public), "a", "not enrolled there", "run what `edge-client keys init` prints"),
        (Keys(ENROLLED, STRANGER.public), "a", "the handshake was broken off", "set [coordinator] public_key"),
        (OURS, "b", "this key is that of a there", "set [client] id = 'a'"),
        (None, "a", "connections are not encrypted here and encrypted there", "leave `security` out"),
    ],
)
def test_who_would_be_refused_is_told_why(keys: Keys | None, client: str, told: str, advice: str) -> None:
    findings = examined(keys, client)
    assert exit_code(findings) == ExitCode.REFUSED
    (refused,) = (finding for finding in findings if finding.code == ExitCode.REFUSED)
    assert told in refused.told
    assert advice in refused.advice


def test_without_settings_the_way_ends_at_the_greeting() -> None:
    assert [(finding.name, finding.level) for finding in examined(knows=False)] == [(name, "ok") for name in ALL[:3]]


class SlowLine(Line):
    """A link that carries so many bytes in a second, to nobody."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self.num_sent: list[int] = []

    async def sound(self, packed: Packed, returns: bool = False, times: int = 1) -> Heard:
        self.num_sent.append(times)
        return Heard(Echo((1, 3), 1, "a", 0.0), 0.25 + times * len(packed.buffer) / self._bytes_per_s, 0.0)


@pytest.mark.parametrize(("bytes_per_s", "num_sent"), [(6e4, [1]), (6e6, [1, NUM_LONG])])
def test_one_long_sounding_does_for_a_slow_link(bytes_per_s: float, num_sent: list[int]) -> None:
    link = SlowLine(bytes_per_s)
    rate = asyncio.run(way._rate(link, False, 0.25))
    assert rate == pytest.approx(bytes_per_s)
    assert link.num_sent == num_sent


def test_a_coordinator_that_does_not_echo_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "QUIET_S", 0.05)
    monkeypatch.setattr(Soundings, "echo", lambda *_: [])
    last = examined()[-1]
    assert (last.name, last.code, last.told) == ("soundings", ExitCode.BAD_CONFIG, "no echo in time")


@pytest.mark.parametrize("num_answered", [1, NUM_SOUNDINGS, NUM_SOUNDINGS + 2])
def test_one_that_echoes_no_more_was_asked_too_often_and_lets_the_device_in(
    monkeypatch: pytest.MonkeyPatch, num_answered: int
) -> None:
    monkeypatch.setattr(line, "QUIET_S", 0.05)
    monkeypatch.setattr("coordinator.clients.soundings.SOUNDINGS_PER_MINUTE", num_answered)
    findings = examined()
    assert findings[-1].told.startswith("asked too often within this minute")
    assert findings[-1].advice == "wait a minute and call this again"
    assert exit_code(findings) == ExitCode.FINISHED
    assert [finding.name for finding in findings] == [*ALL[: len(findings) - 1], "soundings"]


def test_it_can_be_called_four_times_within_a_minute() -> None:
    assert 4 * (1 + NUM_SOUNDINGS + 2 * (1 + NUM_LONG)) <= SOUNDINGS_PER_MINUTE


def test_an_echo_is_waited_for_as_long_as_anything_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "QUIET_S", 0.02)
    quiet_s = [0.0, 0.0, 0.005, 0.02]

    async def main() -> None:
        context: Context = zmq.Context(io_threads=1)
        with socket.create_server(("127.0.0.1", 0)) as mute:
            link = Line(context, "{}:{}".format(*mute.getsockname()), None)
            monkeypatch.setattr(link._dealer, "quiet_s", lambda: quiet_s.pop(0))
            with pytest.raises(SilentError):
                await link.sound(pack(EMPTY))
            link.close()
        context.destroy(linger=0)

    asyncio.run(main())
    assert quiet_s == []


def test_name_and_port_and_greeting_are_those_of_the_address_that_zeromq_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(host: str, port: object, family: int, *_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        assert family == socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.1", "127.0.0.2")]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    findings = examined(knows=False, name="server")
    assert [(finding.name, finding.level) for finding in findings] == [(name, "ok") for name in ALL[:3]]
    assert findings[0].told == "server is 127.0.0.1, 127.0.0.2"


def test_a_name_that_does_not_resolve_is_the_last_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    (name,) = asyncio.run(walked("nowhere:7071"))
    assert (name.code, name.told) == (ExitCode.BAD_CONFIG, "nowhere does not resolve: Name or service not known")


def test_a_port_where_nobody_listens_says_how_somebody_would() -> None:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        *_, port = asyncio.run(walked(f"127.0.0.1:{free.getsockname()[1]}"))
    assert port.name == "port"
    assert "start `coordinator serve` there" in port.advice


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-x" + bytes(64)])
def test_another_program_is_no_coordinator(greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()
        await writer.wait_closed()

    async def walk() -> list[Finding]:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            return await walked(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")

    last = asyncio.run(walk())[-1]
    assert (last.name, last.code) == ("greeting", ExitCode.BAD_CONFIG)
