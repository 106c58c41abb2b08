"""What the lines of a run come to: its rounds, how well its models test, and what all of it has cost.

Lines are all that the totals are made of: live and after a restart, when `replay` reads them back, the same code books
the same lines. Clients' lines of an exchange that a failed round left open come with that round's own line, which holds
the sums of its exchanges and takes their place. The evaluation after the last round is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from coordinator.metrics.accounts import RoundAccount
from coordinator.metrics.accuracy import Accuracies
from coordinator.metrics.durations import MeanDurations
from coordinator.metrics.footprint import Footprints
from coordinator.metrics.links import LinkCounts
from coordinator.metrics.origin import Origin
from coordinator.metrics.privacy import Releases
from coordinator.metrics.since_start import SinceStart
from coordinator.metrics.summary import Totals
from coordinator.metrics.tally import ClientLine, ExchangeLine, Line, RoundLine, RoundView, added, read_line
from coordinator.metrics.task_scores import TaskScores
from models.methods.api import Method
from models.spec import RunSpec
from wire.messages import Ready


class Books:
    """All lines of one run, booked; they grow by one line per round, and with the number of clients."""

    def __init__(self, spec: RunSpec, method: Method) -> None:
        self._spec = spec
        self._method = method
        self.clients: set[str] = set()
        """Those that have announced themselves, or that a line is of."""
        self.known_classes: set[int] = set()
        """Those that a completed round has heard of."""
        self.num_completed = 0
        """Rounds that are completed, and another run's state that this one starts from."""
        self.base = 0
        """The last completed round."""
        self.num_late = 0
        """Updates that came too late for the rounds that are closed."""
        self.simulated_at_s: float | None = None
        """Where the simulated clock stood when a line was last booked."""
        self.since_start = SinceStart()
        """Run constants that were sent, and updates that were not taken."""
        self.footprints = Footprints()
        """Energy and memory of the clients, and their devices."""
        self._rounds: dict[int, RoundLine] = {}
        self._accounts: dict[int, RoundAccount] = {}
        self._evaluation = RoundAccount()
        self._accuracies = Accuracies(method.rules)
        self._tasks = TaskScores(method.rules, spec.plan)
        self._durations = MeanDurations()
        self._num_left_out: Counter[str] = Counter()
        self._releases = Releases()
        self._origin: Origin | None = None

    def start_from(self, known_classes: Collection[int], origin: Origin | None) -> None:
        """Begin with the state that another run ended with, which stands before round 1."""
        self.known_classes = set(known_classes)
        self.num_completed = 1
        self._origin = origin

    def open_round(self, round: int) -> None:
        """Begin the sums of a round, if a line has not done so."""
        self._accounts.setdefault(round, RoundAccount())

    def account(self, round: int) -> RoundAccount:
        """Return the sums of a round that is not closed; of another one there are none."""
        return self._accounts.get(round, RoundAccount())

    def replay(self, lines: Iterable[str]) -> None:
        """Book stored lines; those of exchanges in their order, those of rounds anywhere.

        Raises:
            msgspec.MsgspecError: something else stands among them.
        """
        for text in lines:
            self.book(read_line(text))

    def book(self, line: Line) -> None:
        """Add one line."""
        if not isinstance(line, RoundLine) and not self._method.is_evaluation(line.exchange_index):
            self._durations.book(line)
        if isinstance(line, ClientLine):
            self._book_client(line)
            return
        self.since_start.replay(line)
        if line.simulated_at_s is not None:
            self.simulated_at_s = max(line.simulated_at_s, self.simulated_at_s or 0.0)
        if isinstance(line, ExchangeLine):
            account = self._account_of(line)
            account.new_classes.update(line.new_classes)
            account.metrics.update(line.metrics)
        else:
            self._book_round(line)

    def _book_client(self, line: ClientLine) -> None:
        self.clients.add(line.client)
        if self._spec.privacy.adds_noise and not self._method.is_evaluation(line.exchange_index):
            self._releases.book(line)
        self._accuracies.book(line.client, line.evaluations, line.round, line.base)
        self._tasks.book(line.client, line.evaluations)
        self.footprints.book(line)
        self._num_left_out[line.client] += line.num_left_out
        self._account_of(line).book(line)

    def _book_round(self, line: RoundLine) -> None:
        self._rounds[line.round] = line
        self.num_late += line.late
        self._accounts.pop(line.round, None)
        self.known_classes.update(line.new_classes)
        if line.status == "completed":
            self.num_completed += 1
            self.base = max(self.base, line.round)

    def _account_of(self, line: ClientLine | ExchangeLine) -> RoundAccount:
        """Return where this line is added: nowhere that counts if its round's own line is there already."""
        if self._method.is_evaluation(line.exchange_index):
            return self._evaluation
        return RoundAccount() if line.round in self._rounds else self._accounts.setdefault(line.round, RoundAccount())

    def headline(self, round: int) -> RoundView:
        """Return a closed round at a glance, with the accuracies known by then.

        Raises:
            LookupError: it has not been closed.
        """
        if round not in self._rounds:
            raise LookupError(f"no round {round} has been closed")
        latest = {rule: self._accuracies.latest(rule, round, self.base) for rule in self._method.rules}
        found = {rule: each for rule, each in latest.items() if each is not None}
        accuracy = {rule: total.weighted for rule, (_, total) in found.items()}
        tested = {rule: tested_round for rule, (tested_round, _) in found.items()}
        return RoundView.of(self._rounds[round], self._spec.num_rounds, accuracy, tested)

    def totals(self, announced: Mapping[str, Ready], links: Mapping[str, LinkCounts]) -> Totals:
        """Return what all lines come to, beside what clients have announced and what the kernel has counted."""
        closed = [line for _, line in sorted(self._rounds.items())]
        accounts: list[RoundLine | RoundAccount] = [*closed, *self._accounts.values()]
        return Totals(
            rounds=closed,
            up=added(account.up for account in accounts),
            down=added(account.down for account in accounts),
            num_accepted=sum(account.num_accepted for account in accounts),
            evaluation=self._evaluation,
            init=self.since_start.init,
            refusals=self.since_start.refusals,
            clients=sorted(self.clients),
            announced=announced,
            accuracies=self._accuracies,
            tasks=self._tasks,
            links=links,
            durations=self._durations,
            footprints=self.footprints,
            num_left_out=self._num_left_out,
            base=self.base,
            init_from=self._origin,
            num_releases=self._num_releases() if self._spec.privacy.adds_noise else {},
        )

    def _num_releases(self) -> dict[str, int]:
        """Return how often, at most, each client has told something; a round that failed or is open is unsure."""
        open_round = {len(self._rounds) + 1} if len(self._rounds) < self._spec.num_rounds else set()
        unsure = open_round | {line.round for line in self._rounds.values() if line.status == "failed"}
        return self._releases.at_most(sorted(self.clients), unsure, len(self._method.exchanges))
