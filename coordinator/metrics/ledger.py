"""The run's accounts: what was sent, what came, how long it took and how well it tests.

Theory of operation. While an exchange is open, the ledger notes client by client what happens. When it closes, that
becomes lines, and lines are all that the totals are made of: live and after a restart, when `replay` reads them back,
the same code books the same lines. Clients' lines of an exchange that a failed round left open come with that round's
own line, which holds the sums of its exchanges and takes their place. The evaluation after the last round is counted
apart.

After a restart come `replay`, the announcements, and for an exchange in hand `round_opened(..., resumed=True)`,
`exchange_opened`, and again the updates that the store holds of it, each with its task. What else was sent after the
last line is not known any more; what was refused, `since_start` tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from coordinator.metrics.accounts import ExchangeAccount, RoundAccount, finite, why_unknown
from coordinator.metrics.accuracy import Accuracies
from coordinator.metrics.byte_prediction import Announcements, RunFacts, classes_held, train_counts
from coordinator.metrics.durations import MeanDurations, duration_s
from coordinator.metrics.evaluations import Examiner
from coordinator.metrics.footprint import Footprints
from coordinator.metrics.links import LinkCounts, Links, StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.metrics.privacy import Releases
from coordinator.metrics.since_start import SinceStart
from coordinator.metrics.summary import Totals, make_summary
from coordinator.metrics.tally import (
    ClientLine,
    Cost,
    ExchangeLine,
    Line,
    Report,
    RoundLine,
    RoundView,
    Score,
    Status,
    added,
    read_line,
    write_line,
)
from coordinator.metrics.task_scores import TaskScores
from models.methods import read_config
from models.methods.api import Facts, Method
from models.spec import RunSpec
from wire.messages import Evaluation, Ready

__all__ = ["Cost", "Ledger", "RoundView"]


class Ledger:
    """The accounts of one run; it grows by one line per round, and with the number of clients."""

    def __init__(
        self,
        spec: RunSpec,
        method: Method,
        links: Links | None = None,
        simulated_now: Callable[[], float | None] | None = None,
    ) -> None:
        """Begin with nothing; `links` hold what the kernel counts, `simulated_now` tells the time of a simulation."""
        self._links = links or Links(StoredLinks(), lambda route: None)
        self._spec = spec
        self._takes_turns = simulated_now is not None
        self._simulated_now = simulated_now or (lambda: None)
        self.simulated_at_s: float | None = None
        """Where the simulated clock stood when a line was last booked."""
        self._method = method
        self._config = read_config(method, spec.method_config)
        self._announced = Announcements(spec, method, self._run_facts)
        self._clients: set[str] = set()
        self._rounds: dict[int, RoundLine] = {}
        self._num_late = 0
        self._accounts: dict[int, RoundAccount] = {}
        self._evaluation = RoundAccount()
        self._examiner = Examiner(method.rules, spec.plan)
        self._accuracies = Accuracies(method.rules)
        self._tasks = TaskScores(method.rules, spec.plan)
        self._durations = MeanDurations()
        self._footprints = Footprints()
        self._num_left_out: Counter[str] = Counter()
        self._releases = Releases()
        self._known_classes: set[int] = set()
        self._num_completed = 0
        self._origin: Origin | None = None
        self._written: list[str] = []
        self.links_at_closing = StoredLinks()
        """What the kernel had counted when the last exchange was closed."""
        self._base = 0
        self.since_start = SinceStart()
        """Run constants that were sent, and updates that were not taken."""
        self._exchange: ExchangeAccount | None = None
        self._round_opened_at: float | None = None

    def announce(self, client: str, ready: Ready) -> None:
        """Take in what a client says of itself; the latest word holds."""
        self._clients.add(client)
        self._announced.take(client, ready)

    def device(self, client: str, profile: Mapping[str, Any]) -> None:
        """Take in what a client says of its device, before any line of it; the latest word holds."""
        self._footprints.devices[client] = profile

    def facts(self, client: str) -> Facts:
        """Return what this client's bytes in the open exchange are predicted from.

        Raises:
            KeyError: the client has not announced itself.
        """
        return self._announced.facts(client)

    def first_dims(self, client: str | None) -> Mapping[str, int]:
        """Return the sizes in the run's first downlink that are known beforehand: for this client, or else for any."""
        return self._announced.sure_dims(self._method.exchange(0), client)

    def _run_facts(self) -> RunFacts:
        round = self._exchange.round if self._exchange is not None else 0
        account = self._accounts.get(round, RoundAccount())
        known, plan = self._known_classes | account.new_classes, self._spec.plan
        return RunFacts(
            self._config,
            known,
            round,
            self._num_completed,
            num_task_classes=len(plan.classes(plan.task_of(round))),
            num_seen=len(plan.classes_seen(plan.task_of(self._base))) if self._num_completed else 0,
            metrics=account.metrics,
        )

    def num_train(self, clients: Collection[str]) -> int:
        """Return how many train samples these clients have announced."""
        return sum(self._announced.readies[client].num_train for client in clients)

    def start_from(self, known_classes: Collection[int], origin: Origin | None) -> None:
        """Predict from the state that another run ended with, which stands before round 1."""
        self._known_classes = set(known_classes)
        self._num_completed = 1
        self._origin = origin

    def round_opened(self, round: int, at: float, resumed: bool = False) -> None:
        """Begin a round; the durations of one that was opened before a restart are not known."""
        self._accounts.setdefault(round, RoundAccount())
        self._round_opened_at = None if resumed else at

    def exchange_opened(
        self, round: int, exchange_index: int, cohort: Sequence[str], at: float, resumed: bool = False
    ) -> None:
        """Begin an exchange with these clients; what the kernel counted of one before a restart is not known."""
        name = self._method.exchange(exchange_index).name
        links = self._links.link if not resumed else lambda client: None
        self._announced.forget_facts()
        self._exchange = ExchangeAccount(round, exchange_index, name, self._base, cohort, at, links, self._takes_turns)
        if not resumed:
            self._links.exchange_opened()

    def task_sent(self, client: str, cost: Cost, at: float | None) -> None:
        """Count a downlink; one that the client has been sent before only as bytes on the wire.

        A time is None before a restart.
        """
        self._opened().task_sent(client, cost, at)
        self._links.passed(client, "down", cost.wire_bytes if at is None else None)

    def was_asked(self, client: str) -> bool:
        """Say whether this client's downlink of the open exchange is counted."""
        return self._opened().was_asked(client)

    def update_accepted(self, client: str, cost: Cost, report: Report, at: float | None) -> None:
        """Count an update and what its client says of it."""
        ready = self._announced.readies.get(client)
        self._opened().update_accepted(client, cost, report, at, ready.computed_by if ready is not None else "")
        self._links.passed(client, "up", cost.wire_bytes if at is None else None)

    def update_refused(self, client: str) -> None:
        """Note that what came of a client cannot be right; a corrected update may follow."""
        self._opened().update_refused(client)

    def exchange_closing(self, at: float) -> None:
        """Book the clients' lines while the server half works: no more updates will come. Later calls do nothing."""
        exchange = self._opened()
        if exchange.is_closing:
            return
        exchange.close_at(at)
        self.links_at_closing = self.links()
        for line in self._client_lines(exchange, self.links_at_closing.links):
            self._book(line)
            self._written.append(write_line(line))

    def exchange_closed(self, metrics: Mapping[str, float], at: float) -> list[str]:
        """End the open exchange and return its lines: one per client of the cohort, then the server half's."""
        self.exchange_closing(at)
        line = self._exchange_line(self._opened(), metrics, at)
        written, self._written = [*self._written, write_line(line)], []
        self._exchange = None
        self._book(line)
        return written

    def round_closed(
        self,
        round: int,
        status: Status,
        reason: str,
        global_hash: str,
        at: float,
        peaks: Mapping[str, int | None] | None = None,
    ) -> list[str]:
        """End a round and return its lines: one per client of an exchange that a failed one left open, then its own.

        `peaks` are the coordinator's own of memory in this round, as the line names them.
        """
        self._accounts.setdefault(round, RoundAccount())
        if self._exchange is not None:
            self.exchange_closing(at)
        line = self._round_line(round, status, reason, global_hash, at, peaks or {})
        written, self._written = [*self._written, write_line(line)], []
        self._exchange = self._round_opened_at = None
        self._book(line)
        return written

    def links(self) -> StoredLinks:
        """Return what the kernel has counted by now, to be stored while the run goes on."""
        return StoredLinks(self._links.all())

    def links_at_leaving(self) -> StoredLinks:
        """Return the same to be stored as the run leaves in order."""
        return self._links.at_leaving()

    def replay(self, lines: Iterable[str]) -> None:
        """Take up the accounts from stored lines; those of exchanges in their order, those of rounds anywhere.

        Raises:
            msgspec.MsgspecError: something else stands among them.
        """
        for text in lines:
            self._book(read_line(text))

    def headline(self, round: int) -> RoundView:
        """Return a closed round at a glance, with the accuracies known by then.

        Raises:
            LookupError: it has not been closed.
        """
        if round not in self._rounds:
            raise LookupError(f"no round {round} has been closed")
        latest = {rule: self._accuracies.latest(rule, round, self._base) for rule in self._method.rules}
        found = {rule: each for rule, each in latest.items() if each is not None}
        accuracy = {rule: total.weighted for rule, (_, total) in found.items()}
        tested = {rule: tested_round for rule, (tested_round, _) in found.items()}
        return RoundView.of(self._rounds[round], self._spec.num_rounds, accuracy, tested)

    def summary(
        self,
        mode: str,
        memory: Mapping[str, int | None],
        versions: Mapping[str, str],
        reasons: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the run's figures as `summary.json` holds them.

        Args:
            mode: `loopback`, `simulate` or `serve`.
            memory: the peaks under their names in the summary; what is not there is unknown.
            versions: what ran.
            reasons: why a figure is unknown, by its dotted path, where the caller knows better.
        """
        return make_summary(self._spec, self._method, self._totals(), mode, memory, versions, reasons or {})

    def _totals(self) -> Totals:
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
            clients=sorted(self._clients),
            announced=self._announced.readies,
            accuracies=self._accuracies,
            tasks=self._tasks,
            links=self._links.all(),
            durations=self._durations,
            footprints=self._footprints,
            num_left_out=self._num_left_out,
            base=self._base,
            init_from=self._origin,
            num_releases=self._num_releases() if self._spec.privacy.adds_noise else {},
        )

    def _num_releases(self) -> dict[str, int]:
        """Return how often, at most, each client has told something; a round that failed or is open is unsure."""
        open_round = {len(self._rounds) + 1} if len(self._rounds) < self._spec.num_rounds else set()
        unsure = open_round | {line.round for line in self._rounds.values() if line.status == "failed"}
        return self._releases.at_most(sorted(self._clients), unsure, len(self._method.exchanges))

    def _book(self, line: Line) -> None:
        """Add one line to the accounts."""
        if not isinstance(line, RoundLine) and not self._method.is_evaluation(line.exchange_index):
            self._durations.book(line)
        if isinstance(line, ClientLine):
            self._clients.add(line.client)
            if self._spec.privacy.adds_noise and not self._method.is_evaluation(line.exchange_index):
                self._releases.book(line)
            self._accuracies.book(line.client, line.evaluations, line.round, line.base)
            self._tasks.book(line.client, line.evaluations)
            self._footprints.book(line)
            self._num_left_out[line.client] += line.num_left_out
            self._account_of(line).book(line)
            return
        self._announced.forget_facts()
        self.since_start.replay(line)
        if line.simulated_at_s is not None:
            self.simulated_at_s = max(line.simulated_at_s, self.simulated_at_s or 0.0)
        if isinstance(line, ExchangeLine):
            account = self._account_of(line)
            account.new_classes.update(line.new_classes)
            account.metrics.update(line.metrics)
        else:
            self._book_round(line)

    def _book_round(self, line: RoundLine) -> None:
        self._rounds[line.round] = line
        self._num_late += line.late
        self._accounts.pop(line.round, None)
        self._known_classes.update(line.new_classes)
        if line.status == "completed":
            self._num_completed += 1
            self._base = max(self._base, line.round)

    def _account_of(self, line: ClientLine | ExchangeLine) -> RoundAccount:
        """Return where this line is added: nowhere that counts if its round's own line is there already."""
        if self._method.is_evaluation(line.exchange_index):
            return self._evaluation
        return RoundAccount() if line.round in self._rounds else self._accounts.setdefault(line.round, RoundAccount())

    def _opened(self) -> ExchangeAccount:
        if self._exchange is None:
            raise LookupError("no exchange is open")
        return self._exchange

    def _client_lines(self, exchange: ExchangeAccount, links: Mapping[str, LinkCounts]) -> list[ClientLine]:
        tested = {self._base} if self._method.is_evaluation(exchange.index) else {self._base, exchange.round}

        def examined(client: str, evaluations: Sequence[Evaluation]) -> list[Score]:
            return self._examiner.scores(evaluations, tested - {0}, self._announced.readies.get(client))

        return exchange.lines(lambda client: self._announced.prediction(client, exchange.index), examined, links)

    def _exchange_line(self, exchange: ExchangeAccount, metrics: Mapping[str, float], at: float) -> ExchangeLine:
        return ExchangeLine(
            round=exchange.round,
            exchange=exchange.name,
            exchange_index=exchange.index,
            exchange_s=at - exchange.opened_at,
            metrics=finite(metrics),
            new_classes=sorted(self._held(exchange) - self._known_classes),
            init=self.since_start.init,
            refusals=self.since_start.refusals,
            aggregate_s=None if self._method.is_evaluation(exchange.index) else exchange.aggregate_s(at),
            simulated_at_s=self._simulated_now(),
            null_reasons=why_unknown(metrics),
        )

    def _held(self, exchange: ExchangeAccount) -> set[int]:
        """Return the classes that those hold whose updates were accepted; none once all are known anyway."""
        if len(self._known_classes) == self._spec.num_classes:
            return set()
        readies = self._announced.readies
        announced = [readies[client] for client in exchange.accepted if client in readies]
        counts = [train_counts(self._spec, ready, exchange.round) for ready in announced]
        return {label for each in counts for label in classes_held(each)}

    def _round_line(
        self, round: int, status: Status, reason: str, global_hash: str, at: float, peaks: Mapping[str, int | None]
    ) -> RoundLine:
        account, round_s = self._accounts[round], duration_s(self._round_opened_at, at)
        return RoundLine(
            round=round,
            status=status,
            reason=reason,
            global_hash=global_hash,
            round_s=round_s,
            coordination_s=None if self._takes_turns else account.coordination_s(round_s),
            ok=account.num_ok,
            failed=account.num_failed,
            late=self.since_start.refusals.stale - self._num_late,
            num_accepted=account.num_accepted,
            up=account.up,
            down=account.down,
            new_classes=sorted(account.new_classes) if status == "completed" else [],
            init=self.since_start.init,
            refusals=self.since_start.refusals,
            **peaks,
            simulated_at_s=self._simulated_now(),
        )
