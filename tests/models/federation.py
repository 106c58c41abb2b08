"""A whole federation in one process, without any wire: a server half, and participants with what they hold."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from models import methods
from models.client_states import ClientStates
from models.data import ClientData
from models.methods.api import Exchange, Facts, Method, Update
from models.participant import Attempt, Outcome, Participant
from models.spec import RunSpec
from wire.payload import Payload

RUN = "run-7"


@dataclass
class Exchanged:
    """What one exchange sent, with the facts of each client when it did."""

    exchange: Exchange
    downlink: Payload
    facts: dict[str, Facts]
    uplinks: dict[str, Payload] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Federation:
    """Runs rounds by function calls; every client's state goes through `ClientStates` as on a device."""

    def __init__(self, spec: RunSpec, data: Mapping[str, ClientData], side_by_side: bool = False) -> None:
        """Make the clients of these data; in an exchange each begins when the one before is done, or all together."""
        self.spec = spec
        self.method: Method = methods.find(spec.method)
        self.server = self.method.make_server(spec, methods.read_config(self.method, spec.method_config))
        constants = self.server.constants()
        self.clients = {name: Participant(spec, self.method, name, data[name], constants) for name in sorted(data)}
        self.states = {name: ClientStates(None, RUN, len(self.method.exchanges)) for name in self.clients}
        self.kept = dict.fromkeys(self.clients, 0)
        self.base = 0
        self.side_by_side = side_by_side
        self.known: set[int] = set()
        self.metrics: dict[str, float] = {}
        self.server.num_train = sum(client.announcement.num_train for client in self.clients.values())

    def facts(self, client: str, round: int) -> Facts:
        """What is known about a client now, in this round."""
        told, plan = self.clients[client].announcement, self.spec.plan
        classes = plan.classes(plan.task_of(round))
        counts = [count if label in classes else 0 for label, count in enumerate(told.class_counts)]
        return Facts(
            config=methods.read_config(self.method, self.spec.method_config),
            num_classes=self.spec.num_classes,
            num_public_classes=self.spec.data.num_public_classes,
            feature_dim=told.feature_dim,
            num_train=sum(counts),
            class_counts=counts,
            known_classes=self.known,
            num_parameters=told.num_parameters,
            num_buffers=told.num_buffers,
            round=round,
            rounds_completed=self.base,
            num_task_classes=len(classes),
            num_seen=len(plan.classes_seen(plan.task_of(self.base))) if self.base else 0,
            metrics=self.metrics,
        )

    def round(self, number: int, cohort: Collection[str] | None = None) -> list[Exchanged]:
        """Run one round with these clients, in the order given; updates are aggregated in client-id order."""
        order = list(self.clients if cohort is None else cohort)
        self.metrics = {}
        done = [self._exchange(number, index, order) for index in range(len(self.method.exchanges))]
        self.kept.update(dict.fromkeys(order, number))
        self.base = number
        return done

    def final_evaluation(self) -> dict[str, Outcome]:
        """Run the evaluation after the last round."""
        last = len(self.method.exchanges)
        downlink = self._downlink(self.base, self.method.exchanges[0])
        return {name: self._perform([name], self.base, last, downlink)[name] for name in self.clients}

    def _exchange(self, number: int, index: int, order: list[str]) -> Exchanged:
        exchange = self.method.exchanges[index]
        downlink = self._downlink(number, exchange)
        done = Exchanged(exchange, downlink, {name: self.facts(name, number) for name in order})
        for group in [order] if self.side_by_side else [[name] for name in order]:
            done.outcomes.update(self._perform(group, number, index, downlink))
        done.uplinks = {name: outcome.uplink for name, outcome in done.outcomes.items()}
        self.metrics = {**self.metrics, **self.server.aggregate(number, exchange.name, self.updates(done))}
        held = (done.facts[name].class_counts for name in order)
        self.known = self.known | {label for counts in held for label, count in enumerate(counts) if count}
        return done

    def updates(self, done: Exchanged) -> Iterator[Update]:
        """Yield the uplinks of an exchange as the server half sees them."""
        for name in sorted(done.uplinks):
            facts, num_train = done.facts[name], self.clients[name].announcement.num_train
            dims = {"K": facts.num_classes, **done.exchange.uplink_dims(facts)}
            yield Update(name, num_train, done.exchange.uplink.from_payload(done.uplinks[name], dims))

    def _downlink(self, number: int, exchange: Exchange) -> Payload:
        return self.server.configure(number, exchange.name).to_payload(self.spec.wire.value_dtype)

    def _perform(self, group: Collection[str], number: int, index: int, downlink: Payload) -> dict[str, Outcome]:
        """Let all of a group take up the exchange before any trains, and train before any hands over."""
        attempts: dict[str, Attempt] = {}
        for name in group:
            self.clients[name].load(self.states[name].begin(number, index, self.kept[name]))
            attempts[name] = self.clients[name].take_up(number, index, self.base, downlink)
        for name, attempt in attempts.items():
            self.clients[name].train(attempt)
        outcomes = {name: self.clients[name].hand_over(attempt) for name, attempt in attempts.items()}
        for name in group:
            self.states[name].save(number, index, self.clients[name].arrays())
        return outcomes
