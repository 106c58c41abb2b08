"""What all methods have in common, whatever their halves do."""

from __future__ import annotations

import pytest

from models import methods
from models.spec import TrainingConfig
from tests.models.small_run import make_spec
from wire.payload import Nothing, Sizes


@pytest.mark.parametrize("name", methods.names())
def test_behind_the_last_exchange_stands_the_evaluation(name: str) -> None:
    method = methods.find(name)
    first, last = method.exchanges[0], len(method.exchanges)
    assert [method.exchange(index) for index in range(last)] == list(method.exchanges)
    assert [method.is_evaluation(index) for index in range(last + 1)] == [False] * last + [True]

    evaluation = method.exchange(last)
    assert evaluation is method.exchange(last)  # made once
    assert (evaluation.name, evaluation.trains) == ("evaluation", False)
    assert (evaluation.downlink, evaluation.downlink_dims) == (first.downlink, first.downlink_dims)
    assert evaluation.uplink is Nothing
    assert evaluation.uplink.sizes(evaluation.uplink_dims(None)) == Sizes(0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", methods.names())
def test_the_halves_know_the_evaluations_downlink_by_the_first_exchanges_name(name: str) -> None:
    method = methods.find(name)
    names = [exchange.name for exchange in method.exchanges]
    assert [method.downlink_name(index) for index in range(len(names) + 1)] == [*names, names[0]]


@pytest.mark.parametrize("name", ["fedtgp", "fedpa"])
def test_a_server_half_with_torch_has_the_runs_threads(name: str) -> None:
    torch = pytest.importorskip("torch")
    method, spec = methods.find(name), make_spec(name, training=TrainingConfig(threads=1))
    torch.set_num_threads(2)
    try:
        method.make_server(spec, methods.read_config(method, {}))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)
