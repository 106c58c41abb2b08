"""`run.toml`: defaults, overrides, and an error for everything that cannot work."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.config import RunConfig, load
from models import methods
from models.spec import ConfigError, read_spec


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_the_default_of_every_key_is_a_working_run() -> None:
    config = load(None, [])
    assert config.method_name == methods.default().name
    assert (config.data.num_clients, config.min_available_clients, config.round.min_clients) == (4, 4, 2)


def test_the_file_and_then_the_settings_override(tmp_path: Path) -> None:
    path = written(tmp_path, "[run]\nseed = 3\nnum_rounds = 7\n[method]\nregularizer_weight = 0.5\n")
    config = load(path, ["run.num_rounds=2", "method.weighting=uniform"])
    assert (config.run.seed, config.run.num_rounds) == (3, 2)
    assert config.method == {
        "name": "fedproto",
        "weighting": "uniform",
        "aggregation": "mean",
        "regularizer_weight": 0.5,
    }


@pytest.mark.parametrize("name", methods.names())
def test_the_effective_config_reads_back_the_same(tmp_path: Path, name: str) -> None:
    config = load(None, [f"method.name={name}", "run.name=mine", 'data.classes=["a", "b"]', "round.fraction=0.5"])
    assert load(written(tmp_path, config.to_toml()), []) == config


def test_the_spec_travels_with_every_key_of_the_method() -> None:
    spec = load(None, ["run.seed=5"]).spec("mine-1", ["a", "b"])
    assert (spec.run_id, spec.seed, spec.num_rounds, spec.classes) == ("mine-1", 5, 10, ["a", "b"])
    assert spec.method == "fedproto"
    assert spec.method_config == {"weighting": "counts", "aggregation": "mean", "regularizer_weight": 1.0}
    assert read_spec(msgspec.to_builtins(spec)) == spec


def test_the_spec_has_numbers_for_the_public_samples() -> None:
    for method in map(methods.find, methods.names()):
        data = load(None, [f"method.name={method.name}"]).spec("mine-1", list("abc")).data
        assert (data.public_per_class, data.public_classes) == (method.public_per_class, 2)
    data = load(None, ["data.public_per_class=7", "data.public_classes=3"]).spec("mine-1", list("abc")).data
    assert (data.public_per_class, data.num_public_classes) == (7, 3)
    with pytest.raises(ConfigError, match="public_classes = 4: expected at most 3"):
        load(None, ["data.public_classes=4"]).spec("mine-1", list("abc"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["method.name=tinyproto-fp", "method.prototype_dim=51"], "prototype_dim = 51: expected at most"),
        (["method.name=gfpl", "method.projection_dim=2"], "projection_dim = 2: expected at least 3"),
    ],
)
def test_a_methods_settings_must_fit_the_run(settings: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load(None, settings).spec("mine-1", list("abc"))


def test_a_setting_without_use_need_not_fit() -> None:
    load(None, ["method.name=tinyproto-fp", "method.cps=false", "method.prototype_dim=51"]).spec("mine-1", list("abc"))


@pytest.mark.parametrize(
    ("settings", "min_clients"),
    [
        (["data.num_clients=1"], 1),
        (["data.num_clients=2"], 2),
        (["data.num_clients=9"], 2),
        (["round.min_available_clients=1"], 1),
        (["data.num_clients=1", "round.min_clients=1"], 1),
        (["round.min_clients=4"], 4),
    ],
)
def test_a_default_quorum_fits_the_run(settings: list[str], min_clients: int) -> None:
    assert load(None, settings).round.min_clients == min_clients


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "127.8.9.1:7071", "localhost:7071", "[::1]:7071"])
def test_loopback_addresses_are_bound_in_plaintext(bind: str) -> None:
    assert load(None, [f'transport.bind="{bind}"']).transport.bind == bind


@pytest.mark.parametrize(
    "bind", ["0.0.0.0:7071", "192.168.1.4:7071", "server:7071", "[::]:7071", "*:7071", "128.0.0.1:1"]
)
def test_any_other_address_needs_encryption(bind: str) -> None:
    assert load(None, [f'transport.bind="{bind}"']).transport.is_encrypted
    message = refused([f'transport.bind="{bind}"', "transport.security=none"])
    for part in ("[transport]: bind", bind, "loopback address", "security = 'none'", "unencrypted", "keys init"):
        assert part in message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rounds.fraction=1", "--set: unknown key 'rounds'; did you mean 'round'?"),
        ("round.fractoin=1", "--set [round]: unknown key 'fractoin'; did you mean 'fraction'?"),
        ("round.num_rounds=3", "--set [round]: unknown key 'num_rounds'; did you mean run.num_rounds?"),
        (
            "round.num_clients=3",
            "--set [round]: unknown key 'num_clients'; did you mean 'min_clients' or data.num_clients?",
        ),
        (
            "wire.clip_norm=1",
            "--set [wire]: unknown key 'clip_norm'; did you mean training.clip_norm or privacy.clip_norm?",
        ),
        ("data.weighting=counts", "--set [data]: unknown key 'weighting'; did you mean method.weighting?"),
        ("method.lr=1", "--set: [method] of fedproto: unknown key 'lr'; did you mean training.lr?"),
        ("lr.x=1", "--set: unknown key 'lr'; did you mean training.lr?"),
        ("run.xyz=1", "--set [run]: unknown key 'xyz'; known: name, seed, num_rounds, dir, store"),
        ("method.weightin=counts", "--set: [method] of fedproto: unknown key 'weightin'; did you mean 'weighting'?"),
        ("method.weighting=some", "--set: [method] of fedproto: weighting = 'some': expected 'counts' or 'uniform'"),
        ("method.name=fedprot", "--set [method]: unknown method 'fedprot'; did you mean 'fedproto'?"),
        ("method.name=3", "--set [method]: name = 3: expected the name of a method"),
        ("round.fraction=0", "--set [round]: fraction = 0: expected `float` > 0.0"),
        ("round.fraction=1.5", "--set [round]: fraction = 1.5: expected `float` <= 1.0"),
        ("round.fraction=half", "--set [round]: fraction = 'half': expected `float`, got `str`"),
        ("round.min_clients=0", "--set [round]: min_clients = 0: expected `int` >= 1"),
        ("round.min_available_clients=-1", "--set [round]: min_available_clients = -1: expected `int` >= 0"),
        ("round.deadline_s=0", "--set [round]: deadline_s = 0: expected `float` > 0.0"),
        ("round.deadline_s=nan", "--set [round]: deadline_s = nan: expected `float` > 0.0"),
        ("round.max_exchange_s=inf", "--set [round]: max_exchange_s = inf: expected `float` <= 31622400.0"),
        ("round.max_failed_rounds=0", "--set [round]: max_failed_rounds = 0: expected `int` >= 1"),
        ("run.num_rounds=0", "--set [run]: num_rounds = 0: expected `int` >= 1"),
        ("run.num_rounds=2.5", "--set [run]: num_rounds = 2.5: expected `int`, got `float`"),
        ("run.seed=-1", "--set [run]: seed = -1: expected `int` >= 0"),
        ("run.seed=9223372036854775808", "seed = 9223372036854775808: expected `int` <= 9223372036854775807"),
        ("simulation.batched=maybe", "--set [simulation]: batched = 'maybe': expected `bool` or 'auto'"),
        ("data.public_per_class=some", "--set [data]: public_per_class = 'some': expected `int` or 'auto'"),
        ("run.store=tape", "--set [run]: store = 'tape': expected 'disk' or 'memory'"),
        ("run.name=../up", "--set [run]: name = '../up': expected nothing, or 1 to 64 letters"),
        ("run.dir=", "--set [run]: dir = '': expected a folder"),
        ("data.num_clients=0", "--set [data]: num_clients = 0: expected `int` >= 1"),
        ("data.alpha=0", "--set [data]: alpha = 0: expected `float` > 0.0"),
        ("data.test_fraction=1", "--set [data]: test_fraction = 1: expected `float` < 1.0"),
        ("data.dataset=digit", "--set [data]: unknown dataset 'digit'; did you mean 'digits'?"),
        ("data.partition=dirichlt", "--set [data]: unknown partition 'dirichlt'; did you mean 'dirichlet'?"),
        ("model.name=cmn", "--set [model]: unknown name 'cmn'; did you mean 'cnn'?"),
        ("model.feature_dim=0", "--set [model]: feature_dim = 0: expected `int` >= 1"),
        ("training.lr=0", "--set [training]: lr = 0: expected `float` > 0.0"),
        ("training.lr=inf", "--set [training]: lr = inf: expected `float` <= 3.4e+38"),
        ("training.optimizer=adm", "--set [training]: optimizer = 'adm': expected 'sgd' or 'adam'"),
        (
            "evaluation.rule=globl_prototype",
            "unknown rule 'globl_prototype' of fedproto; did you mean 'global_prototype'?",
        ),
        ("evaluation.test=all", "--set [evaluation]: test = 'all': expected 'own' or 'global'"),
        ("wire.value_dtype=f64", "--set [wire]: value_dtype = 'f64': expected 'f32' or 'f16' or 'bf16' or 'i8'"),
        ("transport.bind=7071", "--set [transport]: bind = 7071: expected `str`, got `int`"),
        ("transport.bind=localhost", "--set [transport]: bind = 'localhost': expected host:port"),
        ("transport.security=tls", "--set [transport]: security = 'tls': expected 'curve' or 'none'"),
        ("transport.keys=", "--set [transport]: keys = '': expected a folder"),
        ("transport.max_message_bytes=1", "--set [transport]: max_message_bytes = 1: expected `int` >= 65536"),
        ("transport.max_message_bytes=2147483648", "max_message_bytes = 2147483648: expected `int` <= 2147483647"),
        ("transport.heartbeat_s=0", "--set [transport]: heartbeat_s = 0: expected `float` >= 0.1"),
        ("transport.heartbeat_s=0.0001", "--set [transport]: heartbeat_s = 0.0001: expected `float` >= 0.1"),
        ("training.lr=1e300", "--set [training]: lr = 1e+300: expected `float` <= 3.4e+38"),
    ],
)
def test_an_error_names_key_expected_and_came(setting: str, message: str) -> None:
    assert message in refused([setting])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["round.min_clients=5"], "min_clients = 5: expected at most 4, the clients there are when a round opens"),
        (["round.min_clients=3", "round.min_available_clients=2"], "min_clients = 3: expected at most 2"),
        (["round.min_available_clients=5"], "min_available_clients = 5: expected at most data.num_clients = 4"),
        (["round.deadline_s=9", "round.max_exchange_s=8"], "deadline_s = 9.0: expected at most max_exchange_s = 8.0"),
        (
            ["method.name=local_only", "evaluation.rule=global_prototype"],
            "unknown rule 'global_prototype' of local_only",
        ),
    ],
)
def test_keys_are_checked_against_each_other(settings: list[str], message: str) -> None:
    assert message in refused(settings)


def test_different_nets_are_refused_where_whole_nets_are_averaged() -> None:
    names = 'model.names=["mlp", "cnn"]'
    for method in map(methods.find, methods.names()):
        if method.shares_model:
            message = refused([f"method.name={method.name}", names])
            assert f"names = ['mlp', 'cnn']: expected one net for all clients, as {method.name} averages" in message
        else:
            assert load(None, [f"method.name={method.name}", names]).model.names == ["mlp", "cnn"]


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[round]\nfractoin = 1\n")
    assert refused([], path) == "run.toml [round]: unknown key 'fractoin'; did you mean 'fraction'?"
    assert refused(["run.seed=1"], path).startswith("run.toml with --set [round]: unknown key")
    written(tmp_path, "[data]\nmomentum = 0.5\n")
    assert refused([], path) == "run.toml [data]: unknown key 'momentum'; did you mean training.momentum?"


def refused(settings: list[str], path: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_method_of_the_users_own_is_found_beside_the_config(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "my_method.py").write_text(
        "from dataclasses import replace\nfrom models import methods\n"
        "METHOD = replace(methods.default(), name='mine', is_default=False)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = load(None, ["method.name=my_method:METHOD"])
    assert isinstance(config, RunConfig)
    assert config.method_name == "my_method:METHOD"
    assert config.method["weighting"] == "counts"
    assert "cannot be imported" in refused(["method.name=my_method:NONE"])


def test_a_setting_that_names_another_method_leaves_the_files_keys_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[method]\nname = "fedproto"\nregularizer_weight = 2.0\n')
    assert load(path, ["method.name=fedavg"]).method == {"name": "fedavg", "aggregation": "mean"}
    assert load(path, ["method.name=fedproto"]).method["regularizer_weight"] == 2.0
    with pytest.raises(ConfigError, match="unknown key 'weighting'"):
        load(path, ["method.name=fedavg", "method.weighting=uniform"])


def test_the_live_page_needs_an_address() -> None:
    assert load(None, ["report.dashboard=0.0.0.0:7080"]).report.dashboard == "0.0.0.0:7080"
    with pytest.raises(ConfigError, match=r"dashboard = 'here': expected nothing, or host:port"):
        load(None, ["report.dashboard=here"])


def test_the_live_page_needs_a_store_that_it_can_read() -> None:
    with pytest.raises(ConfigError, match=r"dashboard = '127.0.0.1:7080': expected nothing, because .* \[run\] store"):
        load(None, ["report.dashboard=127.0.0.1:7080", "run.store=memory"])


def test_a_run_leaves_behind_what_is_wanted() -> None:
    assert load(None, []).report.forms == ["html"]
    assert load(None, ["report.page=false", "report.mlflow=true"]).report.forms == ["mlflow"]


def test_a_ray_cluster_is_joined_only_where_ray_works() -> None:
    with pytest.raises(ConfigError, match=r"ray_address = 'auto': expected nothing, unless executor = 'ray'"):
        load(None, ["simulation.ray_address=auto"])
    assert load(None, ["simulation.ray_address=auto", "simulation.executor=ray"]).simulation.ray_address == "auto"


@pytest.mark.parametrize(
    "key", ["model.feature_dim", "model.depth", "model.patch_size", "data.num_clients", "training.threads"]
)
def test_sizes_that_fit_into_no_memory_are_refused(key: str) -> None:
    table, name = key.split(".")
    with pytest.raises(ConfigError, match=rf"\[{table}\]: {name} = 1000000000000: expected `int` <= "):
        load(None, [f"{key}=1000000000000"])


def test_a_mean_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[data\]: mean = \[nan\]: expected `float` >= "):
        load(None, ["data.mean=[nan]"])
