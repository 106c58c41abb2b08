"""What a run may name on a device, and what only with the device's consent."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import load as load_run
from edge_client.config import load as load_client
from edge_client.consent import check_consent
from edge_client.data_source import _own
from models.spec import ConfigError


def ask(run: list[str], *own: str) -> None:
    """Have a run with these settings ask a device with those."""
    settings = load_client(None, ["client.id=a", "data.index=0", *own])
    check_consent(load_run(None, run).spec("run", ["a", "b"]), settings, "mlp")


def allow(*paths: Path | str) -> str:
    return f"client.paths={list(map(str, paths))}"


KEYS = ["data.root", "data.indices", "model.weights", "model.path"]


@pytest.mark.parametrize("key", KEYS)
def test_a_path_that_a_run_names_must_lie_where_the_device_allows(tmp_path: Path, key: str) -> None:
    table, _, name = key.partition(".")
    run = [f"{key}={tmp_path / 'data' / 'file'}"]
    refused = (
        rf"the run wants \[{table}\] {name} = '{tmp_path}/data/file', which \[client\] paths = \[.*\] does not allow"
    )
    for own in ([], [allow(tmp_path / "dat")], [allow(tmp_path / "data" / "file" / "below")]):
        with pytest.raises(ConfigError, match=refused):
            ask(run, *own)
    for allowed in ("/", tmp_path, tmp_path / "data", tmp_path / "data" / "file"):
        ask(run, allow("/nowhere", allowed))


def test_no_way_leads_out_of_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path)
    for path in ("open/../secret", "open/link/secret", "~nobody-of-this-name/x"):
        with pytest.raises(ConfigError, match="does not allow"):
            ask([f'data.root="{path if path.startswith("~") else tmp_path / path}"'], allow(tmp_path / "open"))


def test_a_home_and_the_folder_to_start_in_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ask(["data.root=~/images"], allow("~"))
    monkeypatch.chdir(tmp_path)
    ask(["data.root=images"], allow("."))
    ask([f"data.root={tmp_path}/images"], allow("images"))


@pytest.mark.parametrize("dataset", ["digits", "mnist", "fashion-mnist", "CIFAR10"])
def test_a_published_data_set_needs_no_consent(dataset: str) -> None:
    ask([f"data.dataset={dataset}"])


@pytest.mark.parametrize("dataset", ["npz", "images"])
def test_what_is_made_of_any_files_needs_it_also_in_the_folder_to_start_in(dataset: str) -> None:
    with pytest.raises(ConfigError, match=r"the run wants \[data\] root = '\.', which \[client\] paths = \[\]"):
        ask([f"data.dataset={dataset}"])
    ask([f"data.dataset={dataset}"], allow("."))


def test_nothing_is_fetched_unless_the_device_allows_it() -> None:
    run = ["data.dataset=CIFAR10", "data.download=true"]
    with pytest.raises(ConfigError, match=r"download = true, which \[client\] downloads = false does not allow"):
        ask(run)
    ask(run, "client.downloads=true")


def test_where_the_device_has_its_own_the_runs_is_not_asked_for() -> None:
    ask(["model.path=/elsewhere/backbone.onnx"], "model.path=/data/backbone.onnx")
    ask(
        ["data.root=/elsewhere", "data.indices=/x", "data.download=true"], "data.source=npz", "data.root=/data/mine.npz"
    )


def test_for_a_devices_own_samples_nothing_is_fetched() -> None:
    spec = load_run(None, ["data.dataset=CIFAR10", "data.download=true"]).spec("run", ["a", "b"])
    settings = load_client(None, ["client.id=a", "data.source=own.parts:samples", "data.root=/data"])
    assert (_own(spec, settings.data).download, _own(spec, settings.data).root) == (False, "/data")


def test_code_for_data_that_a_device_with_its_own_never_loads_needs_no_consent() -> None:
    run = ["data.dataset=theirs:samples", "data.partition=theirs:split"]
    with pytest.raises(ConfigError, match=r"the run wants 'theirs:samples', which \[client\] plugins = \[\]"):
        ask(run)
    with pytest.raises(ConfigError, match=r"the run wants 'theirs:split', which"):
        ask(run, 'client.plugins=["theirs:samples"]')
    ask(run, "data.source=npz", "data.root=/data/mine.npz")
