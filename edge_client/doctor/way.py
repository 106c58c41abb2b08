"""The way to the coordinator, step by step: name, port, greeting, keys, and what soundings tell of clock and speed.

Nothing here says hello, so no run takes notice.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator

import numpy as np

from edge_client.doctor.finding import Finding
from edge_client.doctor.line import Heard, Line, SilentError, UnansweredError
from edge_client.keys import Keys
from models.settings import is_loopback, split_address
from wire.encoding import Packed, pack
from wire.exit_codes import ExitCode
from wire.limits import MAX_SOUNDING_BYTES, SOUNDINGS_PER_MINUTE
from wire.messages import Echo
from wire.payload import Payload, Tensor
from wire.sockets.endpoint import Context
from wire.sockets.knock import mechanism_by
from wire.sockets.names import look_up
from wire.sockets.zeromq import LinkEnd, mismatch
from wire.version import PROTOCOL_VERSION

CONNECT_S = 5.0
"""How long a connection may take."""

NUM_SOUNDINGS = 5
"""Short ones, of which the median is the round-trip time."""

NUM_LONG = 4
"""Long ones behind each other, which tell the bandwidth: so few that all of this can be done again within a minute."""

LONG_BYTES = MAX_SOUNDING_BYTES - 256
"""The payload of a long one, which has a header as well."""

ENOUGH_S = 0.5
"""From when on a long one tells enough by itself."""

LIMITED = f"a coordinator answers {SOUNDINGS_PER_MINUTE} soundings of a client in a minute"

MAX_SKEW_S = 2.0
"""Clocks that are further apart make logs and expiry dates hard to read."""


async def examine_way(address: str, keys: Keys | None, client: str, is_configured: bool) -> list[Finding]:
    """Return what can be said of the way to `host:port`, up to the first step that fails.

    Args:
        address: the coordinator's.
        keys: what the connection is encrypted by, None for one that is not.
        client: this device's id, "" if unknown.
        is_configured: whether it is known what keys there should be; without, the way ends at the greeting.
    """
    wanted = ("NULL" if keys is None else "CURVE") if is_configured else ""
    findings = [await _name(address)]
    if findings[-1].code == ExitCode.FINISHED:
        findings += await _port_and_greeting(address, wanted)
    if findings[-1].code == ExitCode.FINISHED and is_configured:
        findings += [finding async for finding in _soundings(address, keys, client)]
    return findings


async def _name(address: str) -> Finding:
    host, _ = split_address(address) or ("", 0)
    try:
        found = await look_up(host)
    except OSError as error:
        advice = "correct [coordinator] address, or the name service (/etc/resolv.conf, /etc/hosts) of this device"
        return Finding("name", f"{host} does not resolve: {error.strerror}", advice, ExitCode.BAD_CONFIG)
    return Finding("name", f"{host} is {', '.join(found)}")


async def _port_and_greeting(address: str, wanted: str) -> list[Finding]:
    """Look at both by one connection: the coordinator takes notice of each that ends before its handshake is done."""
    host, port = split_address(address) or ("", 0)
    try:
        first, *_ = await look_up(host)  # the one that ZeroMQ connects to
        began = time.perf_counter()
        reader, writer = await asyncio.wait_for(asyncio.open_connection(first, port), CONNECT_S)
    except (OSError, asyncio.TimeoutError) as error:
        return [_unreachable(address, error)]
    took_s = time.perf_counter() - began
    reached = Finding("port", f"{address} answers in {took_s * 1000:.1f} ms", figures={"connect_s": took_s})
    return [reached, _greeting(address, await mechanism_by(reader, writer), wanted)]


def _unreachable(address: str, error: Exception) -> Finding:
    host, port = split_address(address) or ("", 0)
    number = getattr(error, "errno", None) or 0
    why = os.strerror(number) if number > 0 else str(error) or f"no answer within {CONNECT_S:g} s"
    where = "127.0.0.1" if is_loopback(host) else "0.0.0.0"
    start = f"start `coordinator serve` there, with [transport] bind = '{where}:{port}'"
    advice = f"{start}, and let TCP port {port} through its firewall"
    return Finding("port", f"{address} cannot be reached: {why}", advice, ExitCode.BAD_CONFIG)


def _greeting(address: str, mechanism: str, wanted: str) -> Finding:
    if not mechanism:
        advice = "another program listens there, or a proxy with nobody behind it: correct [coordinator] address"
        return Finding("greeting", f"{address} does not greet as a coordinator does", advice, ExitCode.BAD_CONFIG)
    told = "encrypted" if mechanism == "CURVE" else "not encrypted"
    if wanted not in ("", mechanism):
        advice = "leave `security` out of [coordinator] here and of [transport] there"
        return Finding("greeting", mismatch(wanted == "CURVE"), advice, ExitCode.REFUSED)
    return Finding("greeting", f"a coordinator, {told}")


async def _soundings(address: str, keys: Keys | None, client: str) -> AsyncIterator[Finding]:
    context = Context(io_threads=1)
    line = Line(context, address, keys)
    is_let_in = False
    try:
        first = await line.sound(_filler(0))
        is_let_in = True
        yield _enrolment(first.echo, client)
        heard = [await line.sound(_filler(0)) for _ in range(NUM_SOUNDINGS)]
        yield _clock(min(heard, key=lambda each: each.took_s))
        round_trip_s = statistics.median(each.took_s for each in heard)
        yield Finding("round trip", f"{round_trip_s * 1000:.1f} ms", figures={"round_trip_s": round_trip_s})
        yield await _bandwidth(line, round_trip_s)
    except SilentError as error:
        yield _limited() if is_let_in else _unanswered(error)
    except UnansweredError as error:
        yield _unanswered(error)
    finally:
        line.close()
        context.destroy(linger=0)


def _enrolment(echo: Echo, client: str) -> Finding:
    theirs = ".".join(map(str, echo.version))
    if echo.client and echo.client != client:
        advice = f"set [client] id = '{echo.client}', or make keys of its own for {client}: edge-client keys init"
        return Finding("enrolment", f"this key is that of {echo.client} there", advice, ExitCode.REFUSED)
    if echo.version[0] != PROTOCOL_VERSION.major:
        advice = "install the same version of protoedge on both sides"
        told = f"the coordinator speaks protocol {theirs}, this device {PROTOCOL_VERSION}"
        return Finding("enrolment", told, advice, ExitCode.REFUSED)
    whose = f"let in as {echo.client}" if echo.client else "let in without keys"
    return Finding("enrolment", f"{whose}; the coordinator speaks protocol {theirs}")


def _unanswered(error: UnansweredError) -> Finding:
    told = f"not let in: {error}"
    if error.end is LinkEnd.REFUSED:
        advice = "on the coordinator, run what `edge-client keys init` prints here"
        return Finding("enrolment", told, advice, ExitCode.REFUSED)
    if error.end is LinkEnd.BROKEN_OFF:
        advice = "set [coordinator] public_key to what `coordinator keys init` prints there, if that is another one; "
        advice += "if it is not, a network in between cuts connections: try again"
        return Finding("enrolment", told, advice, ExitCode.REFUSED)
    advice = f"if this was called several times within a minute, wait for one: {LIMITED}; if not, look at the "
    advice += "coordinator's log; one that speaks a protocol older than 1.3 cannot be measured"
    return Finding("soundings", str(error), advice, ExitCode.BAD_CONFIG)


def _limited() -> Finding:
    """Tell of a coordinator that answered first and then no more: it lets this device in all the same."""
    return Finding("soundings", f"asked too often within this minute: {LIMITED}", "wait a minute and call this again")


def _clock(heard: Heard) -> Finding:
    """Judge by the quickest echo: it can be off by no more than half the time that it took."""
    ahead_s, off_s = heard.ahead_s, heard.took_s / 2
    direction = "behind" if ahead_s > 0 else "ahead of"
    told = f"{abs(ahead_s):.3f} s {direction} the coordinator's, to {off_s:.3f} s"
    advice = "set both clocks by a time server: timedatectl set-ntp true" if abs(ahead_s) - off_s > MAX_SKEW_S else ""
    return Finding("clock", told, advice, figures={"behind_s": ahead_s, "uncertainty_s": off_s})


async def _bandwidth(line: Line, round_trip_s: float) -> Finding:
    """Measure both ways; what comes back does so while the rest still goes out, so down may be faster than it looks."""
    up, down = [await _rate(line, returns, round_trip_s) for returns in (False, True)]
    figures = {"up_bytes_per_s": up, "least_down_bytes_per_s": down}
    return Finding("bandwidth", f"up {_shown(up)}, down at least {_shown(down)}", figures=figures)


async def _rate(line: Line, returns: bool, round_trip_s: float) -> float | None:
    """Return bytes per second, by one long sounding where that takes its time; None if many are as quick as none."""
    for times in (1, NUM_LONG):
        heard = await line.sound(_filler(LONG_BYTES), returns, times)
        took_s = heard.took_s - round_trip_s
        if took_s > ENOUGH_S:
            break
    return times * LONG_BYTES / took_s if took_s > 0 else None


def _shown(bytes_per_s: float | None) -> str:
    if bytes_per_s is None:
        return "more than can be told"
    mbit_per_s = bytes_per_s * 8 / 1e6
    return f"{mbit_per_s:.3g} Mbit/s" if mbit_per_s < 1000 else f"{mbit_per_s:,.0f} Mbit/s"


def _filler(size_bytes: int) -> Packed:
    return pack(Payload({"filler": Tensor("u8", np.zeros(size_bytes, np.uint8))}))
