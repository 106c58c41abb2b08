"""Profiles from what a run has measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.metrics.tally import ClientLine, Refusals, RoundLine, Traffic, write_line
from coordinator.simulation.measured import read_profiles, with_profiles_of
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError
from tests.coordinator.stores import figures

SETTINGS = ["data.num_clients=2", "training.local_epochs=2"]


def client_line(client: str, round: int, num_bytes: int, link_s: float, train_s: float = 0.5) -> ClientLine:
    """An exchange of which 0.2 s are evaluation and 0.1 s the rest of the client's work."""
    half = Traffic(encoded_bytes=num_bytes // 2)
    taken_s = train_s + 0.3 + link_s
    return ClientLine(round, "prototypes", 0, 0, client, "accepted", half, half, train_s, 0.2, 0.05, 0.05, taken_s)


def round_line(round: int, round_s: float) -> RoundLine:
    none = Traffic()
    return RoundLine(round, "completed", "", "", round_s, 0.1, 2, 0, 0, 2, none, none, [], none, Refusals())


HELD = {"client-00": [10, 20], "client-01": [5, 5]}


def run(path: Path, lines: list[ClientLine | RoundLine], *settings: str) -> Path:
    """Write the run folder of two clients with 30 and 10 train samples."""
    path.mkdir()
    folder = RunFolder(path)
    folder.write_config(load(None, [*SETTINGS, *settings]))
    clients = {client: {"train": held, "test": [1, 1]} for client, held in HELD.items()}
    folder.histogram_path.write_text(json.dumps({"classes": ["a", "b"], "clients": clients}))
    folder.write_metrics(write_line(line) for line in lines)
    return path


def test_rates_and_latencies_by_hand(tmp_path: Path) -> None:
    lines: list[ClientLine | RoundLine] = []
    for round in (1, 2, 3):
        lines += [client_line("client-00", round, 1000, 0.04), client_line("client-01", round, 1000, 0.02, 0.25)]
        lines.append(round_line(round, 1.0))
    measured = read_profiles(run(tmp_path / "run", lines))
    first, second = (measured.profiles[client] for client in ("client-00", "client-01"))
    assert first.samples_per_s == pytest.approx(2 * 30 / 0.5)
    assert second.samples_per_s == pytest.approx(2 * 10 / 0.25)
    assert first.overhead_s == pytest.approx(0.3)
    assert first.latency_s == pytest.approx(0.02)
    assert first.up_mbit_s == first.down_mbit_s == 0.0
    assert measured.coordinator_s == pytest.approx(1.0 - 0.84)


def test_messages_of_different_sizes_tell_the_rate_of_a_link(tmp_path: Path) -> None:
    """0.1 s there and back, and a second for each megabit."""
    lines: list[ClientLine | RoundLine] = [
        client_line("client-00", round, 125_000 * round, 0.1 + round) for round in (1, 2, 3)
    ]
    profile = read_profiles(run(tmp_path / "run", [*lines, round_line(1, 2.0)])).profiles["client-00"]
    assert profile.latency_s == pytest.approx(0.05)
    assert profile.up_mbit_s == profile.down_mbit_s == pytest.approx(1.0)


def test_a_run_is_taken_as_it_was_though_its_backbones_file_is_elsewhere_by_now(tmp_path: Path) -> None:
    net = ("method.name=headcal", "model.name=onnx", "model.path=gone.onnx")
    path = run(tmp_path / "run", [client_line("client-00", 1, 1000, 0.04), round_line(1, 1.0)], *net)
    assert list(read_profiles(path).profiles) == ["client-00"]


def test_the_settings_have_them_in_turn(tmp_path: Path) -> None:
    path = run(tmp_path / "run", [client_line("client-01", 1, 1000, 0.0), round_line(1, 1.0)])
    section = with_profiles_of(load(None, []), path).simulation
    assert section.profiles == ["client-01"]
    assert section.fleet_profiles()[0].samples_per_s == pytest.approx(40)


def test_a_run_without_measurements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a run of real clients with a measured round, got none"):
        read_profiles(run(tmp_path / "run", []))
    with pytest.raises(ConfigError, match="expected a run folder"):
        read_profiles(tmp_path / "nothing")


def test_a_simulated_run_has_measured_no_links(tmp_path: Path) -> None:
    lines: list[ClientLine | RoundLine] = [
        client_line("client-00", 1, 1000, 0.04),
        client_line("client-01", 1, 1000, 0.02),
        round_line(1, 1.0),
    ]
    path = run(tmp_path / "run", lines)
    RunFolder(path).write_summary(figures(mode="simulate", outcome="finished"))
    with pytest.raises(ConfigError, match="expected a run of real clients"):
        read_profiles(path)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("metrics.jsonl", b"\xff\x00{[junk", r"metrics\.jsonl: expected the accounts of a run, got a damaged line"),
        ("histogram.json", b"null", r"histogram\.json: expected the samples of each client"),
        ("histogram.json", b"{}", r"expected the samples of client-00 in histogram\.json, got none"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    path = run(tmp_path / "run", [client_line("client-00", 1, 1000, 0.04), round_line(1, 1.0)])
    (path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"--profiles-from .*{told}"):
        read_profiles(path)
