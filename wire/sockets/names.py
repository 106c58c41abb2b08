"""Looking up names of hosts, which libzmq does too, but without a word of one that it does not find."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import threading

LOOK_UP_S = 10.0
"""How long a look-up may take; the system's own patience may be longer."""


async def look_up(host: str) -> list[str]:
    """Return the addresses of a host; of a name those of IPv4, as ZeroMQ takes no others.

    Raises:
        OSError: it has none, or none is known in time; `strerror` says which.
    """
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[list[str] | OSError] = loop.create_future()

    def tell(found: list[str] | OSError) -> None:
        if not outcome.done():
            outcome.set_result(found)

    def ask() -> None:
        found = _addresses(host)
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(tell, found)

    # Not the loop's own executor: a process that ends would wait for its threads.
    threading.Thread(target=ask, daemon=True).start()
    try:
        found = await asyncio.wait_for(outcome, LOOK_UP_S)
    except asyncio.TimeoutError:
        found = TimeoutError(errno.ETIMEDOUT, f"no answer from the name service within {LOOK_UP_S:g} s")
    if isinstance(found, OSError):
        raise found
    return found


def _addresses(host: str) -> list[str] | OSError:
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:
        return OSError(errno.EINVAL, "no name that there could be")
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
