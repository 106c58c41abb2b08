from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from models import methods, nets
from models.methods.api import RoundFailedError, Server, Update
from models.methods.fednova import Config, Uplink, accumulated_steps
from models.spec import ModelConfig, TrainingConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.errors import RecordError
from wire.payload import Payload, Tensor

METHOD = methods.find("fednova")
PLAIN = TrainingConfig(local_epochs=1, batch_size=4, lr=0.01, momentum=0.0)
SINGLY = replace(PLAIN, batch_size=1)
"""As many steps as samples."""
EVEN = {"a": [0, 0, 1, 1, 2, 2], "b": [1, 1, 2, 2, 3, 3], "c": [3, 3, 3, 0, 0, 0]}


def server(training: TrainingConfig = SINGLY) -> Server:
    return METHOD.make_server(make_spec("fednova", training=training), Config())


def update(client: str, num_train: int, direction: list[float], start: list[float]) -> Update:
    arrays = [np.array(array, np.float32) for array in (direction, [float(num_train)] * bool(num_train), start)]
    arrays += [np.array([num_train], np.uint32)]
    return Update(client, num_train, Uplink(*arrays))


def held(made: Server) -> dict[str, list[float]]:
    return {name: array.tolist() for name, array in made.arrays().items()}


def federation(method: str, labels: dict[str, list[int]], **changes: Any) -> Federation:
    spec = make_spec(method, **{"training": PLAIN, **changes})
    return Federation(spec, {name: make_data(held) for name, held in labels.items()})


@pytest.mark.parametrize("num_steps", [0, 1, 2, 7])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_steps_accumulate_as_momentum_carries_gradients_on(num_steps: int, momentum: float) -> None:
    """Under a gradient of 1 the velocity is v <- rho v + 1, and the way is its sum."""
    velocity = way = 0.0
    for _ in range(num_steps):
        velocity = momentum * velocity + 1
        way += velocity
    assert accumulated_steps(num_steps, replace(SINGLY, momentum=momentum)) == pytest.approx(way, abs=1e-9)
    assert accumulated_steps(num_steps, replace(SINGLY, momentum=momentum, optimizer="adam")) == num_steps


@pytest.mark.parametrize(("num_train", "expected"), [(0, 0), (3, 1), (4, 1), (5, 1), (6, 2), (9, 2), (10, 3)])
def test_steps_are_those_that_training_takes(num_train: int, expected: int) -> None:
    """A part of a batch is a step, but for a single sample, which joins the batch before it."""
    assert accumulated_steps(num_train, PLAIN) == expected
    assert accumulated_steps(num_train, replace(PLAIN, local_epochs=3)) == 3 * expected
    assert accumulated_steps(num_train, replace(PLAIN, local_steps=7)) == (7 if num_train else 0)


def test_an_absurd_claim_is_counted_in_no_time() -> None:
    assert accumulated_steps(2**32 - 1, replace(SINGLY, momentum=0.5)) == 2 * (2**32 - 1) - 2


def test_a_client_cannot_say_how_many_steps_it_took() -> None:
    run = federation("fednova", EVEN)
    (done,) = run.round(1)
    sent = Payload({**done.uplinks["a"].tensors, "num_steps": Tensor("u32", np.array([2**32 - 1], np.uint32))})
    with pytest.raises(RecordError, match=r"got .*num_steps"):
        Uplink.from_payload(sent)


def test_unequal_steps_by_hand() -> None:
    """Shares 3/4 and 1/4, steps 3 and 1: tau_eff = 2.5, and w = [10, 10] - 2.5 (3/4 [1, 0] + 1/4 [0, 2])."""
    made = server()
    updates = [update("a", 3, [1.0, 0.0], [10.0, 10.0]), update("b", 1, [0.0, 2.0], [10.0, 10.0])]
    told = made.aggregate(1, "average", iter([*updates, update("c", 0, [], [])]))
    assert told == {"num_updates": 3.0, "num_train": 4.0, "effective_steps": 2.5}
    assert held(made) == {"parameters": [8.125, 8.75], "buffers": [2.5]}
    assert {array.dtype for array in made.arrays().values()} == {np.dtype(np.float32)}


def test_the_next_round_starts_from_the_global_model() -> None:
    made = server()
    made.aggregate(1, "average", iter([update("a", 1, [1.0], [3.0])]))
    made.aggregate(2, "average", iter([update("a", 2, [0.25], []), update("b", 2, [-0.75], [])]))
    assert held(made)["parameters"] == [2.0 - 2 * (0.25 - 0.75) / 2]


def test_momentum_by_hand() -> None:
    """With rho = 0.5 one step counts 1 and three count 4.25, so shares of 1/4 and 3/4 give tau_eff = 3.4375."""
    made = server(replace(SINGLY, momentum=0.5))
    made.aggregate(1, "average", iter([update("a", 1, [4.0], [0.0]), update("b", 3, [0.0], [0.0])]))
    assert held(made)["parameters"] == [-3.4375]


def test_a_round_without_any_train_sample_fails_and_changes_nothing() -> None:
    made = server()
    made.aggregate(1, "average", iter([update("a", 1, [1.0], [3.0])]))
    with pytest.raises(RoundFailedError, match="round 2: none of 1 updates has a train sample"):
        made.aggregate(2, "average", iter([update("c", 0, [], [])]))
    assert held(made) == {"parameters": [2.0], "buffers": [1.0]}


def test_models_of_different_size_fail_the_round_by_name() -> None:
    updates = [update("a", 1, [1.0], [1.0]), update("b", 1, [1.0, 2.0], [1.0, 1.0])]
    with pytest.raises(RoundFailedError, match=r"client b: direction differ .* expected shape \(1,\), got \(2,\)"):
        server().aggregate(1, "average", iter(updates))


@pytest.mark.parametrize("init", ["common", "per_client"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_equal_steps_it_is_federated_averaging(init: str, momentum: float) -> None:
    model = ModelConfig(feature_dim=6, init=init)  # type: ignore[arg-type]
    changes = {"model": model, "training": replace(PLAIN, momentum=momentum)}
    runs = [federation(method, EVEN, **changes) for method in ("fedavg", "fednova")]
    for number in (1, 2, 3):
        for run in runs:
            run.round(number)
        average, normalised = (run.server.arrays() for run in runs)
        for name in ("parameters", "buffers"):
            assert np.abs(average[name] - normalised[name]).max() < 1e-6


def test_a_client_with_many_steps_does_not_dominate() -> None:
    """Both directions count by their shares of the samples, however many steps made them."""
    labels = {"a": [0, 1] * 8, "b": [2, 3]}
    run = federation("fednova", labels, model=ModelConfig("mlp", feature_dim=6))
    start = nets.flatten_parameters(run.clients["a"]._client.context.net)
    (done,) = run.round(1)
    directions = {name: payload.arrays["direction"] for name, payload in done.uplinks.items()}
    expected = start - (16 * 4 + 2 * 1) / 18 * (16 * directions["a"] + 2 * directions["b"]) / 18
    assert np.allclose(run.server.arrays()["parameters"], expected, atol=1e-6)


def test_a_clients_direction_is_its_way_for_each_step() -> None:
    run = federation("fednova", EVEN, model=ModelConfig("mlp", feature_dim=6))
    half = run.clients["a"]._client
    start = nets.flatten_parameters(half.context.net)
    (done,) = run.round(1)
    sent = done.uplinks["a"].arrays
    assert np.allclose(sent["direction"], (start - nets.flatten_parameters(half.context.net)) / 2, atol=1e-7)
    assert np.array_equal(sent["start"], start)


def test_without_local_epochs_nothing_moves() -> None:
    run = federation("fednova", EVEN, training=TrainingConfig(local_epochs=0))
    start = nets.flatten_parameters(run.clients["a"]._client.context.net)
    for number in (1, 2):
        run.round(number)
    assert np.allclose(run.server.arrays()["parameters"], start, atol=1e-7)


def test_the_start_travels_in_the_first_round_alone() -> None:
    run = federation("fednova", UNEVEN)
    (first,), (second,) = run.round(1), run.round(2)
    told = run.clients["a"].announcement
    whole = told.num_parameters + told.num_buffers
    assert first.downlink.sizes == (0, 0)
    assert first.uplinks["a"].sizes == (whole + told.num_parameters, 4 * (whole + told.num_parameters) + 4)
    assert second.downlink.sizes == (whole, 4 * whole)
    assert second.uplinks["a"].sizes == (whole, 4 * whole + 4)
    assert second.uplinks["d"].sizes == (0, 4)
