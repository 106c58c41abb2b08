"""Who is there, who drops out, and how long an exchange takes a client."""

from __future__ import annotations

import pytest

from coordinator.simulation.fleet import Fleet, num_trained
from coordinator.simulation.profiles import Profile
from models.spec import TrainingConfig
from tests.models.small_run import make_spec
from wire.messages import Ready

CLIENTS = [f"client-{index:02d}" for index in range(50)]
COUNTS = [4, 6, 0, 0]
READY = Ready(1, 10, 10, class_counts=COUNTS, test_counts=COUNTS, feature_dim=6, num_parameters=100, num_buffers=0)


def fleet(*profiles: Profile, coordinator_s: float = 0.0) -> Fleet:
    made = Fleet(profiles, coordinator_s, CLIENTS, make_spec("fedavg"))
    for client in CLIENTS:
        made.announce(client, READY, 10**6)
    return made


def test_profiles_are_given_in_turn() -> None:
    made = fleet(Profile(overhead_s=1.0), Profile(overhead_s=2.0))
    assert [made.trip(client, 0, 0, 1, trains=False).trained_s for client in CLIENTS[:3]] == [1.0, 2.0, 1.0]


def test_a_trip_by_hand() -> None:
    """Down 0.1 + 1, train 10 samples at 20 a second, up 0.1 + 2; the coordinator's part comes first."""
    made = fleet(Profile(samples_per_s=20, up_mbit_s=1, down_mbit_s=1, latency_s=0.1), coordinator_s=0.25)
    trip = made.trip("client-00", 125_000, 250_000, 1, trains=True)
    assert trip == pytest.approx((0.25 + 1.1 + 0.5, 0.25 + 1.1 + 0.5 + 2.1))
    assert made.trip("client-00", 125_000, 250_000, 1, trains=False).trained_s == pytest.approx(0.25 + 1.1)


def test_without_profiles_everything_is_at_once_and_everybody_there() -> None:
    made = fleet()
    assert not made.takes_time
    assert not made.counts_flops
    assert made.trip("client-00", 10**9, 10**9, 1, trains=True) == (0.0, 0.0)
    assert all(made.is_there(client, 1) and not made.drops_out(client, 1, 0) for client in CLIENTS)


def test_operations_are_counted_only_where_a_profile_needs_them() -> None:
    assert fleet(Profile(gflops=1.0)).counts_flops
    assert not fleet(Profile(gflops=1.0, samples_per_s=1.0)).counts_flops


def test_draws_are_keyed_by_round_and_client_and_have_their_share() -> None:
    made, again = (fleet(Profile(availability=0.5, dropout=0.5)) for _ in range(2))
    there = [[made.is_there(client, round) for client in CLIENTS] for round in (1, 2)]
    assert there == [[again.is_there(client, round) for client in CLIENTS] for round in (1, 2)]
    assert there[0] != there[1]
    assert all(10 < sum(row) < 40 for row in there)
    gone = [[made.drops_out(client, 1, exchange) for client in CLIENTS] for exchange in (0, 1)]
    assert gone[0] != gone[1]
    assert all(10 < sum(row) < 40 for row in gone)


def test_samples_count_as_often_as_they_are_used() -> None:
    assert num_trained(10, make_spec("fedavg", training=TrainingConfig(local_epochs=3))) == 30
    assert num_trained(10, make_spec("fedavg", training=TrainingConfig(local_steps=4, batch_size=8))) == 32
    assert num_trained(0, make_spec("fedavg", training=TrainingConfig(local_steps=4))) == 0
