"""What every registered method must keep, whatever it does, and any other one that `--method` names."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from models import methods
from models.checkpoint import state_hash
from models.methods.api import RoundFailedError, Server, Update
from models.methods.declaration import check_halves
from models.spec import DataConfig, ModelConfig, WireConfig
from tests.models.federation import Exchanged, Federation
from tests.models.imports import imports_torch
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.indices import entropy_bytes
from wire.payload import VALUE_DTYPES, Payload, Record

ROOT = Path(__file__).parents[3]

PUBLIC = DataConfig(dataset="tests.models.small_run:load", public_per_class=2, public_classes=2)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    own = metafunc.config.getoption("--method")
    metafunc.parametrize("name", [own] if own else methods.names())


def federation(
    name: str, value_dtype: str = "f32", labels: Mapping[str, list[int]] = UNEVEN, side_by_side: bool = False
) -> Federation:
    model = ModelConfig(feature_dim=32)  # wide enough for no class to have features of zeros
    spec = make_spec(name, data=PUBLIC, model=model, wire=WireConfig(value_dtype=value_dtype))  # type: ignore[arg-type]
    return Federation(spec, {client: make_data(held) for client, held in labels.items()}, side_by_side)


def fresh_server(run: Federation) -> Server:
    made = run.method.make_server(run.spec, methods.read_config(run.method, run.spec.method_config))
    made.num_train = run.server.num_train
    return made


def sent_down(run: Federation, number: int) -> list[str]:
    """Hashes of the downlinks of a round."""
    return [
        state_hash(run.server.configure(number, exchange.name).to_payload().arrays) for exchange in run.method.exchanges
    ]


def payloads(done: list[Exchanged]) -> Iterator[Payload]:
    for exchanged in done:
        yield exchanged.downlink
        yield from exchanged.uplinks.values()


def test_it_is_registered_in_full(name: str) -> None:
    method = methods.find(name)
    assert method.summary
    assert method.paper
    assert method.exchanges
    assert method.default_rule in method.rules
    assert len(set(method.rules)) == len(method.rules)
    assert all(issubclass(record, Record) for each in method.exchanges for record in (each.downlink, each.uplink))
    assert len({exchange.name for exchange in method.exchanges}) == len(method.exchanges)
    check_halves(method, ("server", "client", "client_numpy", "net"))


def test_two_runs_are_equal_in_bits(name: str) -> None:
    hashes = []
    for _ in range(2):
        run = federation(name)
        sent = [state_hash(payload.arrays) for number in (1, 2) for payload in payloads(run.round(number))]
        hashes.append((sent, state_hash(run.server.arrays())))
    assert hashes[0] == hashes[1]


def test_a_server_goes_on_from_its_arrays(name: str) -> None:
    run, other = federation(name), federation(name)
    for number in (1, 2):
        run.round(number)
        other.round(number)
    other.server = fresh_server(other)
    other.server.load({key: array.copy() for key, array in run.server.arrays().items()})
    assert state_hash(other.server.arrays()) == state_hash(run.server.arrays())
    assert sent_down(other, 3) == sent_down(run, 3)
    for finished in (run, other):
        finished.round(3)
    assert state_hash(other.server.arrays()) == state_hash(run.server.arrays())


def test_an_empty_state_is_the_one_before_the_first_round(name: str) -> None:
    run = federation(name)
    before = state_hash(run.server.arrays())
    run.round(1)
    run.server.load({})
    assert state_hash(run.server.arrays()) == before == state_hash(fresh_server(run).arrays())


def test_earlier_arrays_do_not_change_later(name: str) -> None:
    run = federation(name)
    run.round(1)
    states = [run.server.arrays(), run.clients["a"].arrays()]
    hashes = [state_hash(state) for state in states]
    run.round(2)
    assert [state_hash(state) for state in states] == hashes


def test_a_client_goes_on_from_its_arrays(name: str) -> None:
    run, other = federation(name), federation(name)
    run.round(1)
    other.round(1)
    other.clients = federation(name).clients
    ups = [[state_hash(payload.arrays) for payload in payloads(each.round(2))] for each in (run, other)]
    assert ups[0] == ups[1]
    assert [state_hash(run.clients[client].arrays()) for client in UNEVEN] == [
        state_hash(other.clients[client].arrays()) for client in UNEVEN
    ]


def test_clients_whose_steps_alternate_are_not_aware_of_each_other(name: str) -> None:
    hashes = []
    for side_by_side in (False, True):
        run = federation(name, labels={client: UNEVEN[client] for client in ("a", "b")}, side_by_side=side_by_side)
        hashes.append([state_hash(payload.arrays) for payload in payloads(run.round(1))])
    assert hashes[0] == hashes[1]


def test_a_round_that_did_not_count_leaves_no_trace(name: str) -> None:
    run, undisturbed = federation(name), federation(name)
    for each in (run, undisturbed):
        each.round(1)
    start, kept, known = dict(run.server.arrays()), dict(run.kept), set(run.known)
    run.round(2)
    run.server.load(start)
    run.kept, run.base, run.known = kept, 1, known
    run.round(3)
    undisturbed.round(3)
    assert state_hash(run.server.arrays()) == state_hash(undisturbed.server.arrays())
    assert [state_hash(client.arrays()) for client in run.clients.values()] == [
        state_hash(client.arrays()) for client in undisturbed.clients.values()
    ]


def test_the_order_of_arrival_does_not_count(name: str) -> None:
    orders = (["a", "b", "c", "d"], ["d", "c", "b", "a"], ["c", "a", "d", "b"])
    hashes = set()
    for order in orders:
        run = federation(name)
        for number in (1, 2):
            run.round(number, order)
        hashes.add(state_hash(run.server.arrays()))
    assert len(hashes) == 1


def test_it_goes_on_without_some_clients(name: str) -> None:
    run = federation(name)
    for number, cohort in enumerate((["a"], ["b", "d"], ["a", "b", "c", "d"]), start=1):
        done = run.round(number, cohort)
        assert all(np.isfinite(array).all() for payload in payloads(done) for array in payload.arrays.values())
    assert all(np.isfinite(array).all() for array in run.server.arrays().values())


def test_clients_without_samples_alone_fail_the_round_or_change_nothing(name: str) -> None:
    run = federation(name)
    run.round(1)
    before = state_hash(run.server.arrays())
    with suppress(RoundFailedError):
        run.round(2, ["d"])
    assert state_hash(run.server.arrays()) == before


def test_no_updates_at_all_fail_the_round_or_change_nothing(name: str) -> None:
    run = federation(name)
    run.round(1)
    before = state_hash(run.server.arrays())
    none: list[Update] = []
    with suppress(RoundFailedError):
        for exchange in run.method.exchanges:
            run.server.aggregate(2, exchange.name, iter(none))
    assert state_hash(run.server.arrays()) == before


def test_variances_below_zero_in_the_average_leave_features_finite(name: str) -> None:
    """One client may have sent buffers that no batch norm can have."""
    run = federation(name)
    run.round(1)
    arrays = run.server.arrays()
    run.server.load({key: -np.ones_like(array) if key == "buffers" else array for key, array in arrays.items()})
    run.final_evaluation()
    assert all(np.isfinite(client.client.train_features()).all() for client in run.clients.values())


def test_an_absent_class_never_becomes_zeros(name: str) -> None:
    """Nor does any other in a method of ours; elsewhere one that is held may, as the variance of one sample is zero."""
    run, may_be_zeros = federation(name), ":" in name
    everyones = [label for labels in UNEVEN.values() for label in labels]
    for number in (1, 2, 3):
        for exchanged in run.round(number):
            records = [(exchanged.exchange.downlink, exchanged.downlink, everyones)]
            records += [
                (exchanged.exchange.uplink, payload, UNEVEN[client]) for client, payload in exchanged.uplinks.items()
            ]
            for record, payload, held in records:
                for array, classes in rows_by_class(record, payload):
                    says_something = array.any(axis=tuple(range(1, array.ndim)))
                    assert (says_something | (np.isin(classes, held) & may_be_zeros)).all()


def rows_by_class(record: type[Record], payload: Payload) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The value arrays whose first dimension is that of a list of class ids, with these."""
    ids = {spec.metadata["dims"][0]: spec.name for spec in fields(record) if spec.metadata["kind"] == "class_ids"}
    for spec in fields(record):
        if spec.metadata["kind"] == "values" and spec.metadata["dims"][:1] and spec.metadata["dims"][0] in ids:
            yield payload.arrays[spec.name], payload.arrays[ids[spec.metadata["dims"][0]]]


@pytest.mark.parametrize("value_dtype", VALUE_DTYPES)
def test_predicted_sizes_are_the_measured_ones(name: str, value_dtype: str) -> None:
    run = federation(name, value_dtype)
    for number, cohort in enumerate((["b", "c"], ["a", "b", "c", "d"]), start=1):
        for exchanged in run.round(number, cohort):
            exchange = exchanged.exchange
            for client, facts in exchanged.facts.items():
                down = (exchange.downlink, exchange.downlink_dims(facts), exchanged.downlink)
                up = (exchange.uplink, exchange.uplink_dims(facts), exchanged.uplinks[client])
                for record, dims, payload in (down, up):
                    predicted, came = record.sizes(dims, value_dtype), payload.sizes
                    assert came.elements == predicted.elements, f"round {number}, client {client}"
                    assert abs(came.payload_bytes - predicted.payload_bytes) <= slack(record, dims)


def slack(record: type[Record], dims: Mapping[str, int]) -> float:
    """The bytes by which index sets may differ from their entropy, all else being exact."""
    sets = [spec.metadata for spec in fields(record) if spec.metadata["kind"] == "indices"]
    return sum(0.03 * entropy_bytes(dims[each["of"]], dims[each["dims"][0]]) + 8 for each in sets)


def test_every_rule_counts_no_more_than_there_is(name: str) -> None:
    run = federation(name)
    seen: set[int] = set()
    for number in (1, 2):
        for outcome in run.round(number)[-1].outcomes.values():
            for evaluation in outcome.evaluations:
                seen |= set(evaluation.correct)
                assert all(0 <= count <= evaluation.num_test for count in evaluation.correct.values())
    for outcome in run.final_evaluation().values():
        seen |= {rule for evaluation in outcome.evaluations for rule in evaluation.correct}
    assert seen == set(range(len(run.method.rules)))


def test_daemons_can_import_it_without_torch(name: str) -> None:
    method = methods.find(name)
    if ":" in name and imports_torch(name):
        pytest.skip(f"{name} imports torch in the coordinator; import it inside the client half")
    pages = (method.config.__module__, method.server.partition(":")[0])
    modules = [module for module in pages if not imports_torch(module)]
    assert method.config.__module__ in modules
    code = f"import sys, {', '.join(modules)}; assert not {{'torch', 'sklearn', 'zmq'}} & set(sys.modules)"
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.getcwd()])}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT, env={**os.environ, **paths})
