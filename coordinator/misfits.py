"""Whose updates were refused for what is in them, over all processes of a run: too many, and a client is left out."""

from __future__ import annotations

from collections.abc import Mapping


class Misfits:
    """Counts of refused updates by client."""

    def __init__(self, most: int, counts: Mapping[str, int]) -> None:
        """Go on from these counts; `most` refused updates are too many."""
        self._most = most
        self.counts = dict(counts)
        self.left_out: dict[str, str] = {}
        """Who is left out of the run, and why."""
        for client in counts:
            self._judge(client)

    def add(self, client: str) -> str:
        """Count one; return why the client is left out by now, nothing if it is not."""
        self.counts[client] = self.counts.get(client, 0) + 1
        self._judge(client)
        return self.left_out.get(client, "")

    def _judge(self, client: str) -> None:
        if self.counts[client] >= self._most:
            why = f"[gate] max_refusals = {self._most} of its updates were refused"
            self.left_out[client] = f"{client} is left out of the run: {why}"
