from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from models import methods
from models.checkpoint import state_hash
from models.data import ClientData
from models.methods.api import LOCAL_RULES
from models.methods.faults import MethodError
from models.nets import NetShelf
from models.nets.mlp import Mlp
from models.participant import Participant
from models.spec import ConfigError, EvaluationConfig, ModelConfig, RunSpec, TasksConfig, TrainingConfig
from models.steps import AbandonedError
from tests.models.federation import Federation
from tests.models.small_run import ON_CPU, UNEVEN, make_data, make_spec
from wire.errors import RecordError
from wire.payload import EMPTY, Payload, Tensor

METHOD = methods.default()


def participant(
    name: str = "a", data: ClientData | None = None, shelf: NetShelf | None = None, **changes: Any
) -> Participant:
    spec = make_spec(METHOD.name, **{"training": ON_CPU, **changes})
    return Participant(spec, METHOD, name, data or make_data(UNEVEN["a"]), shelf=shelf)


def federation(**changes: Any) -> Federation:
    spec = make_spec(METHOD.name, **changes)
    return Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})


def booked(outcomes: Any) -> list[tuple[int, list[int]]]:
    """Rounds and rule numbers of what one client evaluated."""
    return [(done.round, sorted(done.correct)) for done in outcomes.evaluations]


LOCAL = [METHOD.rules.index(rule) for rule in LOCAL_RULES]
GLOBAL = [METHOD.rules.index(rule) for rule in METHOD.global_rules]


def test_a_participant_announces_what_it_holds() -> None:
    told = participant().announcement
    assert (told.num_train, told.num_test) == (6, 6)
    assert told.class_counts == told.test_counts == [3, 2, 1, 0]
    assert told.feature_dim == 6
    convolutions, norms = 9 * (1 * 16 + 16 * 32 + 32 * 64), 2 * (16 + 32 + 64)
    assert told.num_parameters == convolutions + norms + (64 * 4 * 4 + 1) * 6 + (6 + 1) * 4
    assert told.num_buffers == norms


def test_it_announces_how_many_samples_it_cannot_use_also_when_that_changes() -> None:
    data = replace(make_data(UNEVEN["a"]), num_skipped=2)
    made = Participant(make_spec(METHOD.name, training=ON_CPU), METHOD, "a", data)
    assert made.announcement.num_skipped == 2
    made.renew(replace(data, num_skipped=3))
    assert made.announcement.num_skipped == 3


def test_a_method_adds_its_own_layers_and_rules() -> None:
    method = replace(METHOD, net=f"{__name__}:with_scale", local_rules=("first_class",))
    spec = make_spec(METHOD.name, training=ON_CPU)
    made = Participant(spec, method, "a", make_data(UNEVEN["a"]))
    assert made.announcement.num_parameters == participant().announcement.num_parameters + 1
    assert "scale" in made.arrays()
    assert method.rules == ("head", "local_prototype", "first_class", "global_prototype")


def with_scale(net: Any, spec: RunSpec, config: Any) -> Any:
    """A method's own parameter, beside those of the net."""
    net.register_parameter("scale", torch.nn.Parameter(torch.ones(1)))
    return net


def test_local_rules_are_booked_to_their_round_and_global_ones_to_the_round_before() -> None:
    run = federation()
    assert booked(run.round(1)[-1].outcomes["a"]) == [(1, LOCAL)]
    assert booked(run.round(2)[-1].outcomes["a"]) == [(1, GLOBAL), (2, LOCAL)]
    run.round(3)
    assert booked(run.final_evaluation()["a"]) == [(3, GLOBAL)]


def test_after_a_failed_round_nothing_is_booked_twice_to_another() -> None:
    run = federation()
    run.round(1)
    run.base = 1
    assert booked(run.round(3)[-1].outcomes["a"]) == [(1, GLOBAL), (3, LOCAL)]


def test_evaluation_is_due_at_its_interval_and_after_the_last_round() -> None:
    run = federation(num_rounds=5, evaluation=EvaluationConfig(every=2))
    seen = [booked(run.round(number)[-1].outcomes["a"]) for number in range(1, 6)]
    assert seen == [[], [(2, LOCAL)], [(2, GLOBAL)], [(4, LOCAL)], [(4, GLOBAL), (5, LOCAL)]]
    assert booked(run.final_evaluation()["a"]) == [(5, GLOBAL)]


def test_the_evaluation_after_the_last_round_sends_nothing_up() -> None:
    run = federation()
    run.round(1)
    assert {name: outcome.uplink for name, outcome in run.final_evaluation().items()} == dict.fromkeys(UNEVEN, EMPTY)


def test_test_samples_are_counted() -> None:
    run = federation()
    (evaluation,) = run.round(1)[-1].outcomes["b"].evaluations
    assert evaluation.num_test == 5
    assert all(0 <= count <= 5 for count in evaluation.correct.values())


def test_a_client_without_samples_takes_part() -> None:
    run = federation()
    outcome = run.round(1)[-1].outcomes["d"]
    assert [(done.num_test, set(done.correct.values())) for done in outcome.evaluations] == [(0, {0})]
    assert run.clients["d"].announcement.num_train == 0


def test_an_attempt_repeats_exactly_and_its_state_is_whole() -> None:
    client = participant()
    downlink = federation().server.configure(1, METHOD.exchanges[0].name).to_payload()
    first = client.perform(1, 0, 0, downlink)
    after = client.arrays()
    client.load(None)
    again = client.perform(1, 0, 0, downlink)
    assert state_hash(first.uplink.arrays) == state_hash(again.uplink.arrays)
    assert state_hash(client.arrays()) == state_hash(after)
    other = participant()
    other.load(after)
    assert state_hash(other.perform(2, 0, 0, downlink).uplink.arrays) == state_hash(
        client.perform(2, 0, 0, downlink).uplink.arrays
    )


def test_the_order_of_clients_does_not_count() -> None:
    forward, backward = federation(), federation()
    for number in (1, 2):
        forward.round(number)
        backward.round(number, sorted(UNEVEN, reverse=True))
    assert state_hash(forward.server.arrays()) == state_hash(backward.server.arrays())


def test_initial_weights_are_common_or_each_clients_own() -> None:
    common = [state_hash(participant(name).arrays()) for name in ("a", "b")]
    own = [
        state_hash(participant(name, model=ModelConfig(feature_dim=6, init="per_client")).arrays())
        for name in ("a", "b", "a")
    ]
    assert common[0] == common[1]
    assert own[0] == own[2] != own[1]


class HalfFrozen(Mlp):
    """A net whose first layer is frozen, as it was drawn or as it would come from a file."""

    is_drawn = True

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        first: Any = self.body[1]
        first.weight.requires_grad_(False)
        if not self.is_drawn:
            with torch.no_grad():
                first.weight.fill_(0.1)


class FromFile(HalfFrozen):
    is_drawn = False


@pytest.mark.parametrize(
    ("net", "init"), [("HalfFrozen", "common"), ("FromFile", "common"), ("FromFile", "per_client")]
)
def test_frozen_layers_are_the_same_for_all_clients(net: str, init: Any) -> None:
    model, shelf = ModelConfig(name=f"{__name__}:{net}", feature_dim=6, init=init), NetShelf()
    alone = [participant(name, model=model) for name in ("a", "b")]
    sharing = [participant(name, model=model, shelf=shelf) for name in ("a", "b")]
    for one, other in zip(alone, sharing, strict=True):
        other.load(None)
        own, shared = (made.client.context.net.state_dict() for made in (one, other))
        assert all(torch.equal(own[key], shared[key]) for key in own)


@pytest.mark.parametrize("shelf", [None, NetShelf()])
def test_frozen_layers_that_each_client_would_draw_are_refused(shelf: NetShelf | None) -> None:
    model = ModelConfig(name=f"{__name__}:HalfFrozen", feature_dim=6, init="per_client")
    told = "HalfFrozen' draws layers that it freezes"
    with pytest.raises(ConfigError, match=told):
        participant(model=model, shelf=shelf)


def test_operations_are_counted_without_samples_too() -> None:
    held = [([0, 1], 1), ([], 1), ([3], 2)]
    clients = [participant(data=make_data(labels), tasks=TasksConfig(num_tasks=num)) for labels, num in held]
    counts = [client.count_flops() for client in clients]
    assert counts == [counts[0]] * 3
    assert counts[0] > 0


def test_progress_is_told_and_may_abandon() -> None:
    def stop(done: int, total: int) -> None:
        assert total == 2
        raise AbandonedError

    client = participant()
    with pytest.raises(AbandonedError):
        client.perform(1, 0, 0, federation().server.configure(1, METHOD.exchanges[0].name).to_payload(), stop)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"prototypes": Tensor("f32", np.zeros((1, 5), np.float32)), "classes": Tensor("u16", np.zeros(1, np.uint16))},
        {"prototypes": Tensor("f32", np.zeros((1, 6), np.float32)), "classes": Tensor("u16", np.full(1, 4, np.uint16))},
        {"prototypes": Tensor("f32", np.full((1, 6), np.nan, "f4")), "classes": Tensor("u16", np.zeros(1, np.uint16))},
    ],
)
def test_a_bad_downlink_is_refused(tensors: dict[str, Tensor]) -> None:
    with pytest.raises(RecordError):
        participant().perform(1, 0, 0, Payload(tensors))


def test_another_label_map_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client a: expected label map .* its data have"):
        participant(data=make_data([0, 1], num_classes=2))


def test_a_missing_gpu_is_an_error_in_words() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="sees no GPU"):
        participant(training=TrainingConfig(device="cuda"))


def test_other_samples_change_what_is_announced_and_the_digest_of_the_round() -> None:
    client = participant(data=make_data([2]))
    before = client.samples_digest(1)
    client.renew(make_data([0, 0, 1, 3]))
    assert client.announcement.class_counts == [2, 1, 0, 1]
    assert client.samples_digest(1) != before
    client.renew(make_data([2]))
    assert client.samples_digest(1) == client.samples_digest(2) == before


@pytest.mark.parametrize("method", ["fedavg", "fedproto", "gfpl", "hgp"])
def test_a_client_may_get_lose_and_regain_samples_between_rounds(method: str) -> None:
    run = Federation(make_spec(method), {name: make_data(labels) for name, labels in UNEVEN.items()})
    changes: list[dict[str, list[int]]] = [{}, {"a": [], "c": [0, 0, 1, 3]}, {"a": [1, 2], "b": [], "d": [3, 3, 2]}]
    for number, change in enumerate(changes, start=1):
        for name, labels in change.items():
            run.clients[name].renew(make_data(labels, seed=5))
        for exchanged in run.round(number):
            for client, facts in exchanged.facts.items():
                expected = exchanged.exchange.uplink.sizes(exchanged.exchange.uplink_dims(facts))
                assert exchanged.uplinks[client].sizes == expected
    run.final_evaluation()
    assert run.base == 3


def test_a_load_that_fails_names_the_exchange_that_it_was_for() -> None:
    made, (exchange,) = participant(), METHOD.exchanges
    state = {**made.arrays(), "mine": np.zeros(1, np.float32)}
    at = f"load of the client half at the start of round 2, exchange '{exchange.name}'"
    with pytest.raises(MethodError, match=f"^{at}: ValueError: the net has no 'mine'"):
        made.load(state, 2, 0)
