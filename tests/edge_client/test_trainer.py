"""What a device makes of a run before it loads anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.config import load as load_run
from edge_client.config import load as load_client
from edge_client.data_source import open_source
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


def test_nothing_is_held_out_of_a_devices_own_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((10, 3)), y=np.arange(10) % 2)
    client = load_client(None, ["client.id=a", "data.source=npz", f"data.root={tmp_path}/mine.npz"])
    data = open_source(spec_of("data.public_per_class=3"), client).look()
    assert len(data.train_y) + len(data.test_y) == 10
