"""Every kind of settings file knows the tables of the others, so that who mixes them up is told which is which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator import config as run_config
from coordinator.config import RunConfig
from coordinator.service import settings as service_settings
from coordinator.service.settings import ServiceConfig
from edge_client import config as client_config
from edge_client.config import ClientConfig
from models.settings import OF_A_CLIENT, OF_A_RUN, OF_A_SERVICE, OWNERS
from models.spec import ConfigError

KINDS = {RunConfig: OF_A_RUN, ServiceConfig: OF_A_SERVICE, ClientConfig: OF_A_CLIENT}
EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


def test_a_table_that_one_kind_of_file_alone_has_is_known_as_its_own() -> None:
    count = Counter(table for kind in KINDS for table in kind.__struct_fields__)
    alone = {table: owner for kind, owner in KINDS.items() for table in kind.__struct_fields__ if count[table] == 1}
    assert alone == OWNERS


@pytest.mark.parametrize(
    ("load", "example", "owner"),
    [
        (run_config.load, "client.toml", OF_A_CLIENT),
        (run_config.load, "service.toml", OF_A_SERVICE),
        (service_settings.load, "run.toml", OF_A_RUN),
        (service_settings.load, "client.toml", OF_A_CLIENT),
        (client_config.load, "run.toml", OF_A_RUN),
        (client_config.load, "service.toml", OF_A_SERVICE),
    ],
)
def test_a_file_of_another_kind_is_refused_by_what_reads_it(
    load: Callable[[Path, list[str]], object], example: str, owner: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(EXAMPLES / example, [])
    assert str(refused.value).startswith(f"{example}: [")
    assert f"belongs to {owner}" in str(refused.value)
