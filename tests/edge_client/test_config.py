"""`client.toml`: what a device must say, and an error for everything that cannot work."""

import sys
from pathlib import Path

import pytest

from edge_client.config import load
from models.spec import ConfigError
from wire.sockets.keys import KEY_FORM

NEEDED = ["client.id=client-00", "data.index=0"]


def refused(settings: list[str], path: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_id_and_index_are_enough() -> None:
    config = load(None, NEEDED)
    assert (config.client.id, config.data.source, config.data.index) == ("client-00", "run", 0)
    assert config.coordinator.address == "127.0.0.1:7071"


def test_a_file_of_its_own_needs_no_index() -> None:
    config = load(None, ["client.id=a", "data.source=npz", "data.root=mine.npz"])
    assert (config.data.root, config.data.index) == ("mine.npz", None)


def test_the_settings_lie_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text('[client]\nid = "a"\nplugins = ["pack.age:METHOD"]\n[data]\nindex = 1\n')
    config = load(path, ["data.index=2"])
    assert (config.client.id, config.client.plugins, config.data.index) == ("a", ["pack.age:METHOD"], 2)
    assert refused(["client.idd=x"], path) == "client.toml with --set [client]: unknown key 'idd'; did you mean 'id'?"


@pytest.mark.parametrize("address", ["server.example:7071", "10.0.0.3:1", "[::1]:7071"])
def test_addresses_to_call(address: str) -> None:
    assert load(None, [*NEEDED, f'coordinator.address="{address}"']).coordinator.address == address


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("client.id=", "--set [client]: id = '': expected 1 to 64 letters, digits or . _ -"),
        ("client.id=../up", "--set [client]: id = '../up': expected 1 to 64 letters"),
        ("client.id=ü", "--set [client]: id = 'ü': expected 1 to 64 letters, digits or . _ -, all of them ASCII"),
        ("client.id=7", "--set [client]: id = 7: expected `str`, got `int`"),
        ("client.dir=", "--set [client]: dir = '': expected a folder"),
        ('client.plugins=["no_attribute"]', "--set [client]: plugins = 'no_attribute': expected module:attribute"),
        ('client.plugins=["a b:c"]', "--set [client]: plugins = 'a b:c': expected module:attribute"),
        ("data.threads=1", "--set [data]: unknown key 'threads'; did you mean training.threads?"),
        ("clint.id=a", "--set: unknown key 'clint'; did you mean 'client'?"),
        ("coordinator.address=server", "--set [coordinator]: address = 'server': expected host:port, such as"),
        (
            "coordinator.address=server:0",
            "--set [coordinator]: address = 'server:0': expected host:port, such as 127.0.0.1:7071, the port not 0",
        ),
        (
            "coordinator.public_key=abc",
            f"--set [coordinator]: public_key = 'abc': expected {KEY_FORM}, as",
        ),
        ("data.source=disk", "--set [data]: unknown source 'disk'; known: run, folder, npz"),
        ("data.source=npz", "--set [data]: root = '': expected the path of an npz file (source = 'npz' needs it)"),
        (
            "data.source=folder",
            "--set [data]: root = '': expected the path of a folder with a folder of images for each",
        ),
        ("data.unknown_labels=drop", "--set [data]: unknown_labels = 'drop': expected 'refuse' or 'skip'"),
        ("limits.nice=20", "--set [limits]: nice = 20: expected `int` <= 19"),
        (
            'schedule.windows=["22-6"]',
            "--set [schedule]: windows = '22-6': expected two times of day that differ, such as 22:00-06:00",
        ),
        (
            'schedule.windows=["22:00-22:00"]',
            "--set [schedule]: windows = '22:00-22:00': expected two times of day that differ, such as 22:00-06:00",
        ),
        ('schedule.hook="a \'"', '--set [schedule]: hook = "a \'": expected a command line (No closing quotation)'),
        ('schedule.hook="  "', "--set [schedule]: hook = '  ': expected a command line, or nothing for none"),
        ("schedule.hook=\"''\"", "--set [schedule]: hook = \"''\": expected a command line, or nothing for none"),
        ("schedule.hook_every_s=0", "--set [schedule]: hook_every_s = 0: expected `float` >= 0.1"),
        (
            "schedule.hook_timeout_s=1e9",
            "--set [schedule]: hook_timeout_s = 1000000000.0: expected `float` <= 31622400",
        ),
        (
            "limits.memory_mib=1",
            "--set [limits]: memory_mib = 1: expected at least 128, without which no trainer can start, or 0",
        ),
        (
            'client.paths=[""]',
            "--set [client]: paths = '': expected a folder or a file, such as . for the one to start in",
        ),
        ("data.index=-1", "--set [data]: index = -1: expected `int` >= 0"),
        ("data.index=one", "--set [data]: index = 'one': expected `int | null`, got `str`"),
        ("model.name=cmn", "--set [model]: unknown name 'cmn'; did you mean 'cnn'?"),
        ("model.feature_dim=-1", "--set [model]: feature_dim = -1: expected `int` >= 0"),
        ("training.device=gpu", "--set [training]: device = 'gpu': expected 'auto' or 'cpu' or 'cuda'"),
        ("training.threads=-1", "--set [training]: threads = -1: expected `int` >= 0"),
    ],
)
def test_an_error_names_key_expected_and_came(setting: str, message: str) -> None:
    assert message in refused([*NEEDED, setting])


def test_what_is_needed_is_asked_for() -> None:
    assert "[client]: id = '': expected 1 to 64 letters" in refused(["data.index=0"])
    message = refused(["client.id=a"])
    assert "[data]: index is missing: expected which part of the run's data this device has, from 0" in message


def test_memory_is_bounded_where_the_system_can(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = [*NEEDED, "limits.memory_mib=200"]
    assert load(None, bounded).limits.memory_mib == 200
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "[limits]: memory_mib = 200: expected 0, as only Linux bounds" in refused(bounded)
    assert load(None, NEEDED).limits.memory_mib == 0
