"""A whole federation in one process, without any wire: a server half, and participants with what they hold."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from models import methods
from models.client_states import ClientStates
from models.data import ClientData
from models.methods.api import Exchange, Facts, Method, Update
from models.participant import Outcome, Participant
from models.spec import RunSpec
from wire.payload import Payload

RUN = "run-7"


@dataclass
class Exchanged:
    """What one exchange sent, with the facts known when it did."""

    exchange: Exchange
    downlink: Payload
    downlink_facts: Facts
    uplinks: dict[str, Payload] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Federation:
    """Runs rounds by function calls; every client's state goes through `ClientStates` as on a device."""

    def __init__(self, spec: RunSpec, data: Mapping[str, ClientData]) -> None:
        self.spec = spec
        self.method: Method = methods.find(spec.method)
        self.server = self.method.make_server(spec, methods.read_config(self.method, spec.method_config))
        constants = self.server.constants()
        self.clients = {name: Participant(spec, self.method, name, data[name], constants) for name in sorted(data)}
        self.states = {name: ClientStates(None, RUN, len(self.method.exchanges)) for name in self.clients}
        self.kept = dict.fromkeys(self.clients, 0)
        self.base = 0
        self.known: set[int] = set()

    def facts(self, client: str) -> Facts:
        """What is known about a client now."""
        told = self.clients[client].announcement
        return Facts(
            num_classes=self.spec.num_classes,
            feature_dim=told.feature_dim,
            num_train=told.num_train,
            num_classes_held=sum(1 for count in told.class_counts if count),
            num_classes_known=len(self.known),
            num_parameters=told.num_parameters,
            num_buffers=told.num_buffers,
            rounds_completed=self.base,
        )

    def round(self, number: int, cohort: Collection[str] | None = None) -> list[Exchanged]:
        """Run one round with these clients, in the order given; updates are aggregated in client-id order."""
        order = list(self.clients if cohort is None else cohort)
        done = [self._exchange(number, index, order) for index in range(len(self.method.exchanges))]
        for name in order:
            self.kept[name] = number
            held = self.clients[name].announcement.class_counts
            self.known |= {label for label, count in enumerate(held) if count}
        self.base = number
        return done

    def final_evaluation(self) -> dict[str, Outcome]:
        """Run the evaluation after the last round."""
        last = len(self.method.exchanges)
        downlink = self._downlink(self.base, self.method.exchanges[0])
        return {name: self._perform(name, self.base, last, downlink) for name in self.clients}

    def _exchange(self, number: int, index: int, order: list[str]) -> Exchanged:
        exchange = self.method.exchanges[index]
        downlink = self._downlink(number, exchange)
        done = Exchanged(exchange, downlink, self.facts(next(iter(self.clients))))
        for name in order:
            done.outcomes[name] = self._perform(name, number, index, downlink)
            done.uplinks[name] = done.outcomes[name].uplink
        self.server.aggregate(number, exchange.name, self.updates(done))
        return done

    def updates(self, done: Exchanged) -> Iterator[Update]:
        """Yield the uplinks of an exchange as the server half sees them."""
        for name in sorted(done.uplinks):
            facts = self.facts(name)
            dims = {"K": facts.num_classes, **done.exchange.uplink_dims(facts)}
            yield Update(name, facts.num_train, done.exchange.uplink.from_payload(done.uplinks[name], dims))

    def _downlink(self, number: int, exchange: Exchange) -> Payload:
        return self.server.configure(number, exchange.name).to_payload(self.spec.wire.value_dtype)

    def _perform(self, name: str, number: int, index: int, downlink: Payload) -> Outcome:
        client, states = self.clients[name], self.states[name]
        client.load(states.begin(number, index, self.kept[name]))
        outcome = client.perform(number, index, self.base, downlink)
        states.save(number, index, client.arrays())
        return outcome
