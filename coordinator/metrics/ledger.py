"""The run's accounts: what was sent, what came, how long it took and how well it tests.

Theory of operation. While an exchange is open, the ledger notes client by client what happens. When it closes, that
becomes lines, which go into the `books`: what all of them come to is what is known of the run.

After a restart come `replay`, the announcements, and for an exchange in hand `round_opened(..., resumed=True)`,
`exchange_opened`, and again the updates that the store holds of it, each with its task. What else was sent after the
last line is not known any more; what was refused, `since_start` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from coordinator.metrics.accounts import ExchangeAccount, finite, why_unknown
from coordinator.metrics.books import Books
from coordinator.metrics.byte_prediction import Announcements, RunFacts, classes_held, train_counts
from coordinator.metrics.durations import duration_s
from coordinator.metrics.evaluations import Examiner
from coordinator.metrics.links import LinkCounts, Links, StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.metrics.since_start import SinceStart
from coordinator.metrics.summary import make_summary
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
    write_line,
)
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
        self._method = method
        self._config = read_config(method, spec.method_config)
        self._announced = Announcements(spec, method, self._run_facts)
        self._books = Books(spec, method)
        self._examiner = Examiner(method.rules, spec.plan)
        self._written: list[str] = []
        self.links_at_closing = StoredLinks()
        """What the kernel had counted when the last exchange was closed."""
        self._exchange: ExchangeAccount | None = None
        self._round_opened_at: float | None = None

    @property
    def since_start(self) -> SinceStart:
        """Run constants that were sent, and updates that were not taken."""
        return self._books.since_start

    @property
    def simulated_at_s(self) -> float | None:
        """Where the simulated clock stood when a line was last booked."""
        return self._books.simulated_at_s

    def announce(self, client: str, ready: Ready) -> None:
        """Take in what a client says of itself; the latest word holds."""
        self._books.clients.add(client)
        self._announced.take(client, ready)

    def device(self, client: str, profile: Mapping[str, Any]) -> None:
        """Take in what a client says of its device, before any line of it; the latest word holds."""
        self._books.footprints.devices[client] = profile

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
        account, plan = self._books.account(round), self._spec.plan
        num_completed, base = self._books.num_completed, self._books.base
        return RunFacts(
            self._config,
            self._books.known_classes | account.new_classes,
            round,
            num_completed,
            num_task_classes=len(plan.classes(plan.task_of(round))),
            num_seen=len(plan.classes_seen(plan.task_of(base))) if num_completed else 0,
            metrics=account.metrics,
        )

    def num_train(self, clients: Collection[str]) -> int:
        """Return how many train samples these clients have announced."""
        return sum(self._announced.readies[client].num_train for client in clients)

    def start_from(self, known_classes: Collection[int], origin: Origin | None) -> None:
        """Predict from the state that another run ended with, which stands before round 1."""
        self._books.start_from(known_classes, origin)

    def round_opened(self, round: int, at: float, resumed: bool = False) -> None:
        """Begin a round; the durations of one that was opened before a restart are not known."""
        self._books.open_round(round)
        self._round_opened_at = None if resumed else at

    def exchange_opened(
        self, round: int, exchange_index: int, cohort: Sequence[str], at: float, resumed: bool = False
    ) -> None:
        """Begin an exchange with these clients; what the kernel counted of one before a restart is not known."""
        name = self._method.exchange(exchange_index).name
        links = self._links.link if not resumed else lambda client: None
        self._announced.forget_facts()
        base = self._books.base
        self._exchange = ExchangeAccount(round, exchange_index, name, base, cohort, at, links, self._takes_turns)
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
        self._books.open_round(round)
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
        self._announced.forget_facts()
        self._books.replay(lines)

    def headline(self, round: int) -> RoundView:
        """Return a closed round at a glance, with the accuracies known by then.

        Raises:
            LookupError: it has not been closed.
        """
        return self._books.headline(round)

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
        totals = self._books.totals(self._announced.readies, self._links.all())
        return make_summary(self._spec, self._method, totals, mode, memory, versions, reasons or {})

    def _book(self, line: Line) -> None:
        """Add one line to the books; what is predicted follows from those of an exchange and of a round."""
        if not isinstance(line, ClientLine):
            self._announced.forget_facts()
        self._books.book(line)

    def _opened(self) -> ExchangeAccount:
        if self._exchange is None:
            raise LookupError("no exchange is open")
        return self._exchange

    def _client_lines(self, exchange: ExchangeAccount, links: Mapping[str, LinkCounts]) -> list[ClientLine]:
        tested = (
            {self._books.base} if self._method.is_evaluation(exchange.index) else {self._books.base, exchange.round}
        )

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
            new_classes=sorted(self._held(exchange) - self._books.known_classes),
            init=self.since_start.init,
            refusals=self.since_start.refusals,
            aggregate_s=None if self._method.is_evaluation(exchange.index) else exchange.aggregate_s(at),
            simulated_at_s=self._simulated_now(),
            null_reasons=why_unknown(metrics),
        )

    def _held(self, exchange: ExchangeAccount) -> set[int]:
        """Return the classes that those hold whose updates were accepted; none once all are known anyway."""
        if len(self._books.known_classes) == self._spec.num_classes:
            return set()
        readies = self._announced.readies
        announced = [readies[client] for client in exchange.accepted if client in readies]
        counts = [train_counts(self._spec, ready, exchange.round) for ready in announced]
        return {label for each in counts for label in classes_held(each)}

    def _round_line(
        self, round: int, status: Status, reason: str, global_hash: str, at: float, peaks: Mapping[str, int | None]
    ) -> RoundLine:
        account, round_s = self._books.account(round), duration_s(self._round_opened_at, at)
        return RoundLine(
            round=round,
            status=status,
            reason=reason,
            global_hash=global_hash,
            round_s=round_s,
            coordination_s=None if self._takes_turns else account.coordination_s(round_s),
            ok=account.num_ok,
            failed=account.num_failed,
            late=self.since_start.refusals.stale - self._books.num_late,
            num_accepted=account.num_accepted,
            up=account.up,
            down=account.down,
            new_classes=sorted(account.new_classes) if status == "completed" else [],
            init=self.since_start.init,
            refusals=self.since_start.refusals,
            **peaks,
            simulated_at_s=self._simulated_now(),
        )
