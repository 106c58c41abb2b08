from models.checkpoint import state_hash
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec


def test_nothing_travels_and_each_client_trains() -> None:
    run = Federation(make_spec("local_only"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    before = {name: state_hash(client.arrays()) for name, client in run.clients.items()}
    for number in (1, 2):
        (done,) = run.round(number)
        assert {payload.sizes for payload in (done.downlink, *done.uplinks.values())} == {(0, 0)}
    after = {name: state_hash(client.arrays()) for name, client in run.clients.items()}
    assert {name for name in UNEVEN if before[name] != after[name]} == {"a", "b", "c"}
    assert run.server.arrays() == {}


def test_a_client_is_alone() -> None:
    alone = Federation(make_spec("local_only"), {"a": make_data(UNEVEN["a"])})
    among = Federation(make_spec("local_only"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    for run in (alone, among):
        run.round(1)
    assert state_hash(alone.clients["a"].arrays()) == state_hash(among.clients["a"].arrays())
