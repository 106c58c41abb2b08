"""What a service manager is told of a daemon: that it is up, that its event loop turns, that it ends.

systemd hands a service of `Type=notify` the address of a datagram socket, and with `WatchdogSec=` how often it wants to
hear something: a service that stays silent for so long hangs, and is started anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import MutableMapping

READY, TURNING, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


class ServiceManager:
    """Whoever started this process as a service; nobody where it was started by hand."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take what was handed over out of the environment, so that no child speaks for this process.

        An empty environment names nobody: then nothing is told.
        """
        self._address = environment.pop("NOTIFY_SOCKET", "")
        told_us = environment.pop("WATCHDOG_USEC", "")
        is_for_us = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._silence_s = int(told_us) / 1e6 if told_us.isdecimal() and is_for_us else 0.0

    def ready(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Tell that the service is up, and from now on that its event loop turns, if it has one."""
        self._tell(READY)
        if self._silence_s and loop is not None:
            self._keep_telling(loop)

    def stopping(self) -> None:
        """Tell that the daemon ends, which may take the service's `TimeoutStopSec=`."""
        self._tell(STOPPING)

    def _keep_telling(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tell(TURNING)
        loop.call_later(self._silence_s / 3, self._keep_telling, loop)

    def _tell(self, state: str) -> None:
        """Send without waiting; a manager that is gone does not matter to the daemon."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto(state.encode(), address)
