"""Named moments at which a test may have a process killed, to see that nothing is lost there.

A process that comes to `reach("store.committed")` kills itself if the environment variable `PROTOEDGE_KILL` says so: it
holds words `POINT=N=TICKET`, each for the Nth time that the process comes to POINT, if the file TICKET is there. Who is
killed takes the ticket along, so the same process started again with the same environment lives. Without the variable
a failure point does nothing.

It stands here because both daemons, their children and the checkpoints have such moments.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Mapping

VARIABLE = "PROTOEDGE_KILL"


def _read(words: str) -> Mapping[str, Mapping[int, str]]:
    """Return the tickets by point and count."""
    tickets: dict[str, dict[int, str]] = {}
    for word in words.split():
        point, count, ticket = word.split("=", 2)
        tickets.setdefault(point, {})[int(count)] = ticket
    return tickets


_tickets = _read(os.environ.get(VARIABLE, ""))
_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Come to a failure point."""
    if point not in _tickets:
        return
    _reached[point] += 1
    ticket = _tickets[point].get(_reached[point])
    if ticket is not None and os.path.exists(ticket):
        os.unlink(ticket)
        os.kill(os.getpid(), signal.SIGKILL)
