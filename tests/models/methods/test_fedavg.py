import numpy as np
import pytest

from models import methods
from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedavg import Config, Uplink
from models.spec import ModelConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

METHOD = methods.find("fedavg")


def test_all_clients_must_have_one_net() -> None:
    assert METHOD.shares_model


def server() -> Server:
    return METHOD.make_server(make_spec("fedavg"), Config())


def update(client: str, num_train: int, parameters: list[float], buffers: list[float]) -> Update:
    arrays = (np.array(parameters, np.float32), np.array(buffers, np.float32))
    return Update(client, num_train, Uplink(*arrays, np.array([num_train], np.uint32)))


def held(made: Server) -> dict[str, list[float]]:
    return {name: array.tolist() for name, array in made.arrays().items()}


def test_parameters_and_buffers_are_averaged_by_train_samples() -> None:
    made = server()
    updates = [update("a", 3, [0.0, 4.0], [8.0]), update("b", 1, [4.0, 0.0], [0.0]), update("c", 0, [], [])]
    assert made.aggregate(1, "average", iter(updates)) == {"num_updates": 3.0, "num_train": 4.0}
    assert held(made) == {"parameters": [1.0, 3.0], "buffers": [6.0]}
    assert {array.dtype for array in made.arrays().values()} == {np.dtype(np.float32)}


def test_sums_are_kept_in_float64() -> None:
    made = server()
    made.aggregate(1, "average", iter([update(str(i), 1, [number], []) for i, number in enumerate((1e8, 1.0, -1e8))]))
    assert held(made)["parameters"] == [pytest.approx(1 / 3, abs=1e-7)]


def test_a_round_without_any_train_sample_fails_and_changes_nothing() -> None:
    made = server()
    made.aggregate(1, "average", iter([update("a", 1, [1.0], [2.0])]))
    with pytest.raises(RoundFailedError, match="round 2: none of 1 updates has a train sample"):
        made.aggregate(2, "average", iter([update("c", 0, [], [])]))
    assert held(made) == {"parameters": [1.0], "buffers": [2.0]}


def test_models_of_different_size_fail_the_round_by_name() -> None:
    updates = [update("a", 1, [1.0], []), update("b", 1, [1.0, 2.0], [])]
    with pytest.raises(RoundFailedError, match=r"client b: parameters differ .* expected shape \(1,\), got \(2,\)"):
        server().aggregate(1, "average", iter(updates))


@pytest.mark.parametrize("init", ["common", "per_client"])
def test_all_clients_hold_the_average_once_it_is_installed(init: str) -> None:
    model = ModelConfig(name="mlp", feature_dim=6, init=init)  # type: ignore[arg-type]
    run = Federation(make_spec("fedavg", model=model), {name: make_data(labels) for name, labels in UNEVEN.items()})
    run.round(1)
    average = run.server.arrays()["parameters"]
    run.final_evaluation()
    for client in run.clients.values():
        arrays = client.arrays()
        assert sorted(np.concatenate([array.ravel() for array in arrays.values()])) == sorted(average)


def test_one_clients_average_is_its_own_model_and_its_rules_agree() -> None:
    run = Federation(make_spec("fedavg"), {"a": make_data(UNEVEN["a"])})
    (done,) = run.round(1)
    local = done.outcomes["a"].evaluations[0].correct[METHOD.rules.index("head")]
    (evaluation,) = run.final_evaluation()["a"].evaluations
    assert evaluation.correct == {METHOD.rules.index("global_head"): local}


def test_the_first_downlink_is_empty_and_the_next_is_the_whole_model() -> None:
    run = Federation(make_spec("fedavg"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    (first,), (second,) = run.round(1), run.round(2)
    told = run.clients["a"].announcement
    whole = told.num_parameters + told.num_buffers
    assert first.downlink.sizes == (0, 0)
    assert second.downlink.sizes == (whole, 4 * whole)
    assert second.uplinks["a"].sizes == (whole, 4 * whole + 4)
    assert second.uplinks["d"].sizes == (0, 4)
