"""What a device makes of a run before it loads anything."""

from __future__ import annotations

import pytest

from coordinator.config import load as load_run
from edge_client.config import load as load_client
from edge_client.trainer import device_spec
from models.spec import ConfigError, RunSpec

OWN = ("client.id=a", "data.index=0")


def spec_of(*settings: str) -> RunSpec:
    return load_run(None, settings).spec("run", ["a", "b"])


def test_a_device_may_have_a_net_of_its_own() -> None:
    spec = spec_of("model.name=cnn")
    assert device_spec(spec, load_client(None, OWN)).model.name == "cnn"
    assert device_spec(spec, load_client(None, [*OWN, "model.name=mlp"])).model.name == "mlp"


def test_but_not_where_whole_nets_are_averaged() -> None:
    with pytest.raises(ConfigError, match="'mlp': fedavg averages whole nets, and the run's is 'cnn'"):
        device_spec(spec_of("method.name=fedavg"), load_client(None, [*OWN, "model.name=mlp"]))


def test_code_that_the_device_does_not_allow_is_never_imported() -> None:
    spec = spec_of("model.name=no_such_module:Net")
    with pytest.raises(ConfigError, match=r"the run wants 'no_such_module:Net', which \[client\] plugins = \[\]"):
        device_spec(spec, load_client(None, OWN))
