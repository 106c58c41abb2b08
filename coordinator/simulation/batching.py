"""Which clients of a run train together (`[simulation] batched`), and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from models.methods.batching import GROUP_SIZE

if TYPE_CHECKING:
    from models.participant import Participant


def shares(clients: Iterable[str], num_train: Mapping[str, int], num_groups: int) -> list[list[str]]:
    """Return the clients one by one, those with most to do first, or in about so many groups that train together."""
    longest_first = sorted(clients, key=lambda client: (-num_train[client], client))
    size = min(GROUP_SIZE, -(-len(longest_first) // num_groups)) if num_groups else 1
    return [longest_first[begin : begin + size] for begin in range(0, len(longest_first), size)]


class Batching:
    """The groups of a run's clients that train together: those with the same net, and about as many samples."""

    def __init__(self, nets: Mapping[str, str], num_train: Mapping[str, int]) -> None:
        """Take the name of each client's net, and how many samples it trains with."""
        self._nets = nets
        self._num_train = num_train
        self._largest: dict[str, int] = {}
        self._one_by_one: set[tuple[str, int]] = set()
        self._notes: list[str] = []

    def groups(self, clients: Iterable[str], exchange: int, show: Callable[[str], Participant]) -> Iterator[list[str]]:
        """Yield the groups that train together in this exchange, of two or more; `show` returns a client."""
        by_net: dict[str, list[str]] = {}
        for client in sorted(clients, key=lambda client: (-self._num_train[client], client)):
            by_net.setdefault(self._nets[client], []).append(client)
        for net, found in by_net.items():
            if len(found) > 1 and self._can(show(found[0]), net, exchange):
                size = self._largest[net]
                groups = [found[begin : begin + size] for begin in range(0, len(found), size)]
                yield from (group for group in groups if len(group) > 1)

    def give_up(self, group: Sequence[str], exchange: int, error: RuntimeError) -> None:
        """Note that a group could not train together: half as many are tried where memory ran out, else one by one."""
        from models.device_memory import OutOfMemoryError

        net = self._nets[group[0]]
        if isinstance(error, OutOfMemoryError) and len(group) > 2:
            self._largest[net] = len(group) // 2
            self._notes.append(f"{len(group)} clients do not fit into memory together: half as many are tried")
        else:
            self._leave_apart(net, exchange, str(error))

    def take_notes(self) -> list[str]:
        """Return what people have yet to be told."""
        notes, self._notes = self._notes, []
        return notes

    def _can(self, participant: Participant, net: str, exchange: int) -> bool:
        if (net, exchange) in self._one_by_one or not participant.trains(exchange):
            return False
        if not participant.can_batch(exchange):
            self._leave_apart(net, exchange, "the method's local step is no plain loss")
            return False
        from models.batched import group_size

        self._largest.setdefault(net, group_size(participant.client.context.device))
        return True

    def _leave_apart(self, net: str, exchange: int, reason: str) -> None:
        self._one_by_one.add((net, exchange))
        self._notes.append(f"clients with net {net!r} train one after the other, not batched: {reason}")
