"""What a `kill -9` of the server and of a client costs the rounds."""

from __future__ import annotations

import time

import msgspec

from tests.benchmarks.peers.contender import SERVER, Contender, client_name
from tests.benchmarks.peers.processes import PeerError

BEFORE = 3
"""So many rounds are closed before anything is killed, and so many are waited for after a client was."""

DEADLINE_S = 20.0
"""How long a round waits for a client, given to all alike; above what any of them takes for a round of three."""

PATIENCE_S = 90.0
"""A round that is not closed by then is taken for one that never will be."""

START_PATIENCE_S = 120.0


class ServerKilled(msgspec.Struct, frozen=True, tag=True):
    """Until a round is closed (None: never in `PATIENCE_S`), and how many clients had left by then."""

    closed_after_s: float | None
    num_left: int


class ClientKilled(msgspec.Struct, frozen=True, tag=True):
    """The times between the closings that came after, of which the first counts from the kill."""

    gaps_s: list[float]

    @property
    def stall_s(self) -> float | None:
        """The longest of them; None if rounds did not go on."""
        return max(self.gaps_s) if len(self.gaps_s) == BEFORE else None


def kill_server(contender: Contender) -> ServerKilled:
    """Kill the server in the middle of a run and start it again at once, with its clients as they are."""
    with contender:
        _see_rounds(contender)
        contender.processes.kill(SERVER)
        before, started = contender.num_closed(), time.monotonic()
        contender.restart_server()
        goes_on = _waits(contender, before + 2)  # one more may be the round at hand, aggregated once more
        clients = map(client_name, range(contender.setting.num_clients))
        num_left = sum(map(contender.processes.has_ended, clients))
        return ServerKilled(time.monotonic() - started if goes_on else None, num_left)


def kill_client(contender: Contender) -> ClientKilled:
    """Kill the last client in the middle of a run, for good."""
    with contender:
        _see_rounds(contender)
        contender.processes.kill(client_name(contender.setting.num_clients - 1))
        before, last_s = contender.num_closed(), time.monotonic()
        gaps_s = []
        for number in range(before + 1, before + 1 + BEFORE):
            if not _waits(contender, number):
                break
            gaps_s.append(time.monotonic() - last_s)
            last_s = time.monotonic()
        return ClientKilled(gaps_s)


def _see_rounds(contender: Contender) -> None:
    contender.start()
    contender.processes.until(lambda: contender.num_closed() >= BEFORE, f"{BEFORE} rounds", START_PATIENCE_S, SERVER)


def _waits(contender: Contender, number: int) -> bool:
    """Say whether so many rounds are closed before patience ends."""
    try:
        contender.processes.until(lambda: contender.num_closed() >= number, f"{number} rounds", PATIENCE_S)
    except PeerError:
        return False
    return True
