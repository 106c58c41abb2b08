"""Where a coordinator and its clients on this machine meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.loopback import loopback
from models.spec import ConfigError


@pytest.mark.parametrize("bind", ["0.0.0.0:7071", "192.168.1.4:7071", "[::]:7071", "server:7071"])
def test_an_address_that_other_machines_reach_is_refused_before_anything_is_made(tmp_path: Path, bind: str) -> None:
    config = load(None, [f"run.dir={tmp_path}", f'transport.bind="{bind}"'], "loopback")
    with pytest.raises(ConfigError) as refusal:
        loopback(config, tmp_path, None)
    expected = "expected a loopback address such as 127.0.0.1:0, as the keys of `loopback` are its own clients' alone"
    assert str(refusal.value) == f"[transport] bind = {bind!r}: {expected}; `coordinator serve` is for others"
    assert list(tmp_path.iterdir()) == []
