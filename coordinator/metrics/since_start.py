"""What is counted from a run's start on, beside its exchanges: run constants that were sent, and updates not taken.

Every line of an exchange or a round carries both totals as they stood then. A process that goes on with a run also has
what the store holds, which is later than the lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.metrics.tally import Cost, ExchangeLine, Refusals, RoundLine, Traffic, added
from wire.messages import RefusalCode

SentConstants = Mapping[str, Traffic]
"""What sending run constants to one client has come to, by their digests."""


class SinceStart:
    """Both counts of one run."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._constants: dict[str, dict[str, Traffic]] = {}
        self._sent = Traffic()
        self._told = Traffic()
        self.refusals = Refusals()

    @property
    def init(self) -> Traffic:
        """What the run constants have come to that were sent."""
        return max(self._sent, self._told, key=lambda traffic: traffic.encoded_bytes)

    def constant_sent(self, client: str, digest: str, cost: Cost) -> SentConstants:
        """Count a run constant, as sent again if the client has been sent it before; return what it has been sent."""
        sent = self._constants.setdefault(client, {})
        traffic = Traffic.of_repeat(cost) if digest in sent else Traffic.of(cost)
        sent[digest] = sent.get(digest, Traffic()).plus(traffic)
        self._sent = self._sent.plus(traffic)
        return sent

    def refused(self, code: str) -> None:
        """Count an update that was not taken; all codes but `duplicate` and `stale` count as `refused`.

        One that is only early is still to come, and not counted.
        """
        if code != RefusalCode.NOT_OPEN:
            self.refusals = self.refusals.plus(code)

    def before(self, constants: Mapping[str, SentConstants], refusals: Refusals) -> None:
        """Go on from what an earlier process has stored: run constants by client, and refusals."""
        self._constants = {client: dict(sent) for client, sent in constants.items()}
        self._sent = added(traffic for sent in constants.values() for traffic in sent.values())
        self._refused_at_least(refusals)

    def replay(self, line: ExchangeLine | RoundLine) -> None:
        """Go on from what a line says, if that is more."""
        self._told = max(self._told, line.init, key=lambda traffic: traffic.encoded_bytes)
        self._refused_at_least(line.refusals)

    def _refused_at_least(self, refusals: Refusals) -> None:
        self.refusals = max(self.refusals, refusals, key=lambda counts: counts.total)
