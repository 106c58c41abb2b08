"""What `service.toml` and `--set` of a standing coordinator may say."""

from __future__ import annotations

import pytest

from coordinator.service.settings import load
from models.spec import ConfigError


@pytest.mark.parametrize("setting", ["method.name=fedavg", "run.seed=1", "privacy.noise_multiplier=4.0"])
def test_settings_of_a_run_are_sent_where_they_belong(setting: str) -> None:
    table = setting.partition(".")[0]
    with pytest.raises(
        ConfigError, match=rf"\[{table}\] belongs to a run: `coordinator serve --config FILE` .* `coordinator submit`"
    ):
        load(None, [setting])


def test_an_unknown_table_is_named_beside_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown key 'nonsense'; known: service, transport"):
        load(None, ["nonsense.key=1"])
