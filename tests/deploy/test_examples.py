"""The example files work as they stand, hold every key, and say the defaults."""

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator import config as run_config
from coordinator.service import settings as service_settings
from edge_client import config as client_config
from edge_client.consent import check_consent
from models import methods
from models.settings import read_toml
from tests.markdown import code_blocks

README = Path(__file__).parents[2] / "deploy" / "README.md"
EXAMPLES = README.parent / "examples"


def keys(section: type[Any]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(section)}


def sections(config: type[Any]) -> dict[str, set[str]]:
    """Every table of a config with its keys; `[method]` has those of the default method."""
    tables = {field.encode_name: field.type for field in msgspec.structs.fields(config)}
    method = {"name", *keys(methods.default().config)}
    return {name: method if name == "method" else keys(kind) for name, kind in tables.items()}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("run.toml", run_config.RunConfig),
        ("client.toml", client_config.ClientConfig),
        ("service.toml", service_settings.ServiceConfig),
    ],
)
def test_an_example_holds_every_key(name: str, config: type[Any]) -> None:
    assert {table: set(values) for table, values in read_toml(EXAMPLES / name).items()} == sections(config)


def test_the_example_run_is_the_default_run() -> None:
    assert run_config.load(EXAMPLES / "run.toml", []) == run_config.load(None, [])


def test_the_example_service_has_the_defaults() -> None:
    assert service_settings.load(EXAMPLES / "service.toml", []) == service_settings.load(None, [])


def test_the_example_client_has_the_defaults_but_for_id_and_index() -> None:
    needed = ["client.id=client-00", "data.index=0"]
    assert client_config.load(EXAMPLES / "client.toml", []) == client_config.load(None, needed)


def test_the_example_client_finds_the_example_run() -> None:
    run, client = run_config.load(EXAMPLES / "run.toml", []), client_config.load(EXAMPLES / "client.toml", [])
    assert client.coordinator.address == run.transport.bind
    assert client.data.index is not None
    assert client.data.index < run.data.num_clients


@pytest.mark.parametrize("name", ["run.toml", "client.toml", "service.toml"])
def test_every_table_is_commented(name: str) -> None:
    tables = (EXAMPLES / name).read_text().split("\n[")[1:]
    assert [table.splitlines()[0] for table in tables if "#" not in table] == []


def test_a_device_without_torch_may_take_part_by_the_commands_of_its_section(tmp_path: Path) -> None:
    (tmp_path / "backbone.onnx").write_bytes(b"a backbone")
    section = README.read_text().partition("## A device without torch\n")[2].partition("\n## ")[0]
    section = section.replace("/data/", f"{tmp_path}/").replace('"/data"', f'"{tmp_path}"')
    serve, run = (shlex.split(line) for line in code_blocks(section)[0].splitlines())
    settings = [[after for word, after in pairwise(command) if word == "--set"] for command in (serve, run)]
    spec = run_config.load(EXAMPLES / "run.toml", settings[0]).spec("run", ["0", "1"])
    check_consent(spec, client_config.load(EXAMPLES / "client.toml", settings[1]), spec.model.name)
    assert (spec.model.name, spec.data.dataset) == ("onnx", "npz")
