"""What `service.toml` and `--set` of a standing coordinator may say."""

from __future__ import annotations

import pytest

from coordinator.config import load as load_run
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


def test_a_page_that_a_run_of_a_service_cannot_have_is_refused_with_the_command_that_serves_it() -> None:
    with pytest.raises(
        ConfigError, match=r"dashboard = '127.0.0.1:7080': expected nothing; .* `coordinator dashboard RUN`"
    ):
        load(None, []).over(load_run(None, ["report.dashboard=127.0.0.1:7080"]), "run.toml")
