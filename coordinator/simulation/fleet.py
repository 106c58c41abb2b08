"""A run's clients as devices: who is there, who drops out, and how long what they are asked takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.metrics.byte_prediction import train_counts
from coordinator.simulation.profiles import Profile
from models import seeding
from models.spec import RunSpec
from wire.messages import Ready


class Trip(NamedTuple):
    """How long after an exchange's opening a client has trained, and its update comes, in seconds."""

    trained_s: float = 0.0
    back_s: float = 0.0


class Fleet:
    """The clients of a run, each with a profile, in turn by their index; draws are keyed by the run's seed."""

    def __init__(
        self, profiles: Sequence[Profile], coordinator_s: float, clients: Sequence[str], spec: RunSpec
    ) -> None:
        self.takes_time = bool(profiles)
        """Whether there is any profile, so that simulated time passes."""
        self._coordinator_s = coordinator_s
        self._spec = spec
        in_turn = profiles or [Profile()]
        self._profiles = {client: in_turn[index % len(in_turn)] for index, client in enumerate(clients)}
        self._announced: dict[str, tuple[Ready, int]] = {}

    @property
    def counts_flops(self) -> bool:
        """Whether it must be known what a sample's way through a client's net takes."""
        return any(profile.gflops and not profile.samples_per_s for profile in self._profiles.values())

    def announce(self, client: str, ready: Ready, flops: int) -> None:
        """Take in what a client has, and what a sample's way through its net takes."""
        self._announced[client] = ready, flops

    def is_there(self, client: str, round: int) -> bool:
        """Say whether a client is there when a round opens."""
        share = self._profiles[client].availability
        return share == 1 or seeding.generator(self._spec.seed, "availability", client, round).random() < share

    def drops_out(self, client: str, round: int, exchange: int) -> bool:
        """Say whether a client takes its task and is not heard of again in this exchange."""
        share = self._profiles[client].dropout
        return share > 0 and seeding.generator(self._spec.seed, "dropout", client, round, exchange).random() < share

    def trip(self, client: str, down_bytes: int, up_bytes: int, round: int, trains: bool) -> Trip:
        """Return how long an exchange takes a client in which its task and its update have so many bytes."""
        profile, (ready, flops) = self._profiles[client], self._announced[client]
        num_samples = self._num_samples(ready, round) if trains else 0
        down_s = self._coordinator_s + profile.down_s(down_bytes)
        trained_s = down_s + profile.work_s(num_samples, flops)
        return Trip(trained_s, trained_s + profile.up_s(up_bytes))

    def _num_samples(self, ready: Ready, round: int) -> int:
        return num_trained(sum(train_counts(self._spec, ready, round)), self._spec)


def num_trained(num_train: int, spec: RunSpec) -> int:
    """Return with how many samples a client of so many trains in a round, each counted as often as it is used."""
    training = spec.training
    if training.local_steps:
        return training.local_steps * min(training.batch_size, num_train)
    return training.local_epochs * num_train
