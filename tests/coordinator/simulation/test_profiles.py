"""What a profile is put together from, and how long things take on it."""

from __future__ import annotations

import pytest

from coordinator.config import load
from coordinator.simulation.profiles import PROFILE_PARTS, Profile, put_together
from models.spec import ConfigError


def test_a_device_and_a_link_make_one_profile() -> None:
    made = put_together("nano+lte", {})
    assert (made.gflops, made.up_mbit_s) == (
        PROFILE_PARTS["nano"].profile.gflops,
        PROFILE_PARTS["lte"].profile.up_mbit_s,
    )


def test_a_later_part_overrides_what_it_sets() -> None:
    made = put_together("lte+slow", {"slow": Profile(up_mbit_s=1.0)})
    assert (made.up_mbit_s, made.down_mbit_s) == (1.0, PROFILE_PARTS["lte"].profile.down_mbit_s)


def test_an_unknown_part_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown part 'nan' of profile 'lte\+nan'; did you mean 'nano'"):
        put_together("lte+nan", {})


def test_every_ready_profile_has_a_figure_and_its_source() -> None:
    assert set(PROFILE_PARTS) == {"workstation", "orin", "nano", "raspberry-pi", "lte", "nb-iot"}
    assert all(len(part.source) > 20 and part.profile != Profile() for part in PROFILE_PARTS.values())


def test_times_by_hand() -> None:
    """3 passes of 10 samples of 1e6 operations at 1 GFLOPS; 1,000 bytes at 1 and 2 Mbit/s."""
    profile = Profile(gflops=1.0, overhead_s=0.5, up_mbit_s=1.0, down_mbit_s=2.0, latency_s=0.1)
    assert profile.work_s(10, 10**6) == pytest.approx(0.5 + 0.03)
    assert profile.up_s(1000) == pytest.approx(0.1 + 0.008)
    assert profile.down_s(1000) == pytest.approx(0.1 + 0.004)


def test_samples_a_second_take_the_place_of_operations() -> None:
    assert Profile(gflops=1.0, samples_per_s=5.0).work_s(10, 10**9) == 2.0


def test_what_is_not_said_takes_no_time() -> None:
    assert Profile().work_s(10, 10**9) == Profile().up_s(10**9) == 0.0


def test_own_parts_are_set_from_the_command_line_and_survive_the_run_folder() -> None:
    config = load(None, ["simulation.own.slow.gflops=2", 'simulation.profiles=["slow"]'])
    assert config.simulation.fleet_profiles() == [Profile(gflops=2.0)]
    assert "availability" not in config.to_toml()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (['simulation.profiles=["orine"]'], r"\[simulation\] profiles: unknown part 'orine' .* did you mean 'orin'"),
        (
            ['simulation.profiles=["half"]', "simulation.own.half.availability=0.5"],
            r"\[round\]: min_available_clients = 0: expected less than data.num_clients = 4",
        ),
        (["simulation.own.slow.gflops=-1"], "gflops"),
    ],
)
def test_bad_profiles_are_refused_in_words(settings: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(None, settings)
