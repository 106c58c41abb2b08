"""Noise on class statistics: how much, on what, repeated by whom, and where it would promise what it cannot keep."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import methods
from models.participant import Participant
from models.privacy import Release, check_noise, clipped, run_secret, seed_secret
from models.spec import ConfigError, PrivacyConfig, RunSpec
from tests.models.frozen_method import METHOD
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.payload import EMPTY

NOISY = PrivacyConfig(noise_multiplier=2.0, clip_norm=3.0)
OWN = b"a secret of thirty-two bytes ..."


def spec_with(**changes: Any) -> RunSpec:
    return make_spec("tests.models.frozen_method:METHOD", privacy=PrivacyConfig(**changes))


def statistics(spec: RunSpec, secret: bytes = OWN, keys: tuple[str | int, ...] = ("a", 1, 0), num: int = 5) -> Any:
    features_BD = np.random.default_rng(0).normal(size=(num, 6))
    return Release(spec, secret, *keys).class_statistics(features_BD, np.arange(num) % 2)


def test_features_are_clipped_and_never_stretched() -> None:
    features = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert clipped(features, 1.0) == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="expected finite features"):
        clipped(np.array([[np.nan]]), 1.0)


def test_with_hardly_any_noise_the_statistics_are_those_of_the_clipped_features() -> None:
    features_BD, labels = np.array([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]]), np.array([0, 2, 2])
    told = Release(spec_with(noise_multiplier=1e-12, clip_norm=2.0), OWN).class_statistics(features_BD, labels)
    assert told.sums_CD == pytest.approx(np.array([[1.2, 1.6], [0, 0], [2, 1], [0, 0]]), abs=1e-9)
    assert told.squares_CD == pytest.approx(np.array([[1.44, 2.56], [0, 0], [4, 1], [0, 0]]), abs=1e-9)
    assert told.counts_C == pytest.approx([1, 0, 2, 0], abs=1e-9)


def test_one_sample_changes_the_statistics_by_no_more_than_the_noise_is_made_for() -> None:
    norm, quiet = 2.0, spec_with(noise_multiplier=1e-12, clip_norm=2.0)
    random = np.random.default_rng(0)
    for feature_D in (*random.normal(size=(50, 3)) * 5, np.array([norm, 0.0, 0.0])):
        told = Release(quiet, OWN).class_statistics(feature_D[None], np.zeros(1, np.int64))
        whole = np.concatenate([told.sums_CD.ravel() / norm, told.squares_CD.ravel() / norm**2, told.counts_C])
        assert np.linalg.norm(whole) <= np.sqrt(3) + 1e-9
    assert np.linalg.norm(whole) == pytest.approx(np.sqrt(3))


@pytest.mark.parametrize(
    ("part", "in_units"), [("sums_CD", 3.0), ("squares_CD", 9.0), ("counts_C", 1.0)], ids=["sums", "squares", "counts"]
)
def test_the_noise_is_as_large_as_the_accounting_takes_it_to_be(part: str, in_units: float) -> None:
    spec, none = spec_with(noise_multiplier=2.0, clip_norm=3.0), np.zeros(0, np.int64)
    drawn = [
        getattr(Release(spec, OWN, "a", round, 0).class_statistics(np.zeros((0, 50)), none), part)
        for round in range(400)
    ]
    assert np.std(drawn) == pytest.approx(2.0 * np.sqrt(3) * in_units, rel=0.08)
    assert abs(np.mean(drawn)) < 0.2 * in_units


def test_announced_counts_are_noised_for_a_change_of_one_and_never_negative() -> None:
    told = np.array([
        Release(spec_with(noise_multiplier=2.0), OWN, "a", number).class_counts(np.array([1] * 100))
        for number in range(500)
    ])  # fmt: skip
    assert told.min() == 0
    assert told[:, 1].std() == pytest.approx(2.0, rel=0.1)
    assert told[:, 1].mean() == pytest.approx(100, abs=0.5)


def test_a_repeated_attempt_repeats_its_noise() -> None:
    first, again = (statistics(spec_with(noise_multiplier=1.0)) for _ in range(2))
    assert all((left == right).all() for left, right in zip(first, again, strict=True))


@pytest.mark.parametrize(
    "other",
    [
        lambda: statistics(spec_with(noise_multiplier=1.0), b"another secret of the right size."[:32]),
        lambda: statistics(spec_with(noise_multiplier=1.0), keys=("b", 1, 0)),
        lambda: statistics(spec_with(noise_multiplier=1.0), keys=("a", 2, 0)),
        lambda: statistics(spec_with(noise_multiplier=1.0), num=6),
        lambda: statistics(spec_with(noise_multiplier=1.0, clip_norm=2.0)),
    ],
    ids=["secret", "client", "round", "samples", "settings"],
)
def test_nothing_else_is_ever_said_with_the_same_noise(other: Callable[[], Any]) -> None:
    absent = 3  # a class without samples, whose statistics are noise alone
    noises = [told.counts_C[absent] for told in (statistics(spec_with(noise_multiplier=1.0)), other())]
    assert noises[0] != noises[1]


def test_twice_the_noise_is_other_noise_not_the_same_doubled() -> None:
    one, two = (statistics(spec_with(noise_multiplier=multiplier)).counts_C[3] for multiplier in (1.0, 2.0))
    assert two != pytest.approx(2 * one)


def test_a_second_word_in_an_exchange_is_refused() -> None:
    release = Release(spec_with(noise_multiplier=1.0), OWN)
    release.class_counts(np.zeros(1, np.int64))
    with pytest.raises(RuntimeError, match="one noised release"):
        release.class_counts(np.zeros(1, np.int64))


def test_a_secret_is_another_one_in_each_run() -> None:
    assert len({run_secret(OWN, "one"), run_secret(OWN, "two"), run_secret(b"x" * 32, "one"), seed_secret(0)}) == 4


def participant(secret: bytes, **changes: Any) -> Participant:
    return Participant(spec_with(**changes), METHOD, "a", make_data(UNEVEN["a"]), secret=secret)


def test_a_client_announces_noised_counts_and_sends_all_classes() -> None:
    exact = participant(b"").announcement
    noisy = participant(OWN, noise_multiplier=5.0)
    assert exact.class_counts == [3, 2, 1, 0]
    assert noisy.announcement.class_counts != exact.class_counts
    assert noisy.announcement.num_train == sum(noisy.announcement.class_counts)
    noisy.load(None)
    first, again = (noisy.perform(1, 0, 0, EMPTY).uplink for _ in range(2))
    assert first.arrays["sums"].shape == (4, 6)
    assert (first.arrays["sums"] == again.arrays["sums"]).all()
    assert (noisy.perform(2, 0, 1, EMPTY).uplink.arrays["sums"] != first.arrays["sums"]).all()


def test_class_counts_are_released_once_for_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[np.ndarray] = []
    real = Release.class_counts

    def counting(self: Release, labels_B: np.ndarray) -> np.ndarray:
        released.append(real(self, labels_B))
        return released[-1]

    monkeypatch.setattr(Release, "class_counts", counting)
    client = participant(OWN, noise_multiplier=5.0)
    client.load(None)
    client.perform(1, 0, 0, EMPTY)
    assert len(released) == 1
    client.renew(make_data(UNEVEN["b"]))
    assert len(released) == 2
    assert client.announcement.class_counts == client.client.context.class_counts.tolist() == released[1].tolist()


def test_a_client_without_a_secret_does_not_pretend() -> None:
    with pytest.raises(ConfigError, match=r"client a: expected a secret for the noise of \[privacy\], got none"):
        participant(b"", noise_multiplier=1.0)


def test_a_client_with_noise_tells_no_accuracy_of_what_is_its_own() -> None:
    pytest.importorskip("torch")
    frozen = replace(methods.find("fedproto"), frozen_extractor=True, default_rule="global_prototype")
    told = {}
    for privacy in (PrivacyConfig(), NOISY):
        made = Participant(make_spec("fedproto", privacy=privacy), frozen, "a", make_data([0, 1, 2]), secret=OWN)
        made.load(None)
        downlink = frozen.make_server(make_spec("fedproto"), frozen.config()).configure(1, "prototypes")
        told[privacy] = made.perform(1, 0, 0, downlink.to_payload("f32")).evaluations
    assert told[PrivacyConfig()]
    assert told[NOISY] == []


def test_noise_is_refused_where_devices_train_the_extractor() -> None:
    for method in map(methods.find, methods.names()):
        if not method.frozen_extractor:
            with pytest.raises(
                ConfigError, match=f"expected 0, as {method.name} has a feature extractor that is trained"
            ):
                check_noise(NOISY, method, "auto")
        check_noise(PrivacyConfig(), method, "auto")
    check_noise(NOISY, METHOD, "auto")


def test_noise_is_refused_where_the_headline_is_the_accuracy_of_a_clients_own_state() -> None:
    frozen = replace(methods.find("fedproto"), frozen_extractor=True)
    with pytest.raises(ConfigError, match=r"tests the global state \(global_prototype\).*got 'local_prototype'"):
        check_noise(NOISY, frozen, "auto")
    check_noise(NOISY, frozen, "global_prototype")


def test_a_device_refuses_a_run_that_promises_what_it_cannot_keep() -> None:
    with pytest.raises(ConfigError, match="expected 0, as fedproto has"):
        Participant(make_spec("fedproto", privacy=NOISY), methods.find("fedproto"), "a", make_data([0]), secret=OWN)
