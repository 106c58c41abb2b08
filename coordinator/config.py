"""`run.toml`: everything about a run, with a default for every key, checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import tomli_w

from coordinator.label_map import check_label_map
from coordinator.report.forms import AUTOMATIC
from coordinator.round_rules import RoundRules
from coordinator.simulation.section import SimulationSection
from models import methods
from models.data import DATASETS
from models.methods.api import Method
from models.methods.declaration import check_halves
from models.nets import NET_NAMES, is_frozen
from models.nets.frozen_backbone import check_file
from models.partition import PARTITIONS
from models.privacy import check_noise
from models.registry import is_here
from models.settings import (
    ADDRESS_FORM,
    NAME_FORM,
    Tables,
    apply_settings,
    check_owner,
    check_part,
    is_loopback,
    is_plain_name,
    read_toml,
    refusal,
    source_of,
    split_address,
)
from models.spec import (
    ConfigError,
    DataConfig,
    EvaluationConfig,
    IntervalSeconds,
    ModelConfig,
    NotNegative,
    Positive,
    PrivacyConfig,
    RunSpec,
    Seconds,
    Section,
    TasksConfig,
    TrainingConfig,
    WireConfig,
    keys_by_table,
    nearest,
    read_section,
)
from wire.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES, WHOLE_BYTES

Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]

FREE_PORT = "127.0.0.1:0"
"""An address of this machine alone, at whatever port is free."""


class RunSection(Section, frozen=True):
    """`[run]`: name, length and place of the run; an empty name stands for the method's."""

    name: str = ""
    seed: NotNegative = 0
    num_rounds: Positive = 10
    dir: str = "runs"
    store: Literal["disk", "memory"] = "disk"


class RoundSection(Section, frozen=True):
    """`[round]`: who takes part in a round and how long it waits; 0 available clients stand for `data.num_clients`."""

    fraction: Fraction = 1.0
    min_clients: Positive = 2
    min_available_clients: NotNegative = 0
    deadline_s: Seconds = 300.0
    max_exchange_s: Seconds = 3600.0
    max_failed_rounds: Positive = 3


class GateSection(Section, frozen=True):
    """`[gate]`: the numbers that no update may exceed, and how many refused ones a client has; a norm of 0 is none."""

    max_abs: Annotated[float, msgspec.Meta(gt=0)] = 1e9
    max_norm: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    max_refusals: Positive = 10


class TransportSection(Section, frozen=True):
    """`[transport]`: where clients connect, and what their connections may carry."""

    bind: str = "127.0.0.1:7071"
    security: Literal["curve", "none"] = "curve"
    keys: str = "coordinator-keys"
    max_message_bytes: Annotated[int, msgspec.Meta(ge=WHOLE_BYTES, le=MAX_MESSAGE_BYTES)] = DEFAULT_MAX_MESSAGE_BYTES
    heartbeat_s: IntervalSeconds = 5.0

    @property
    def is_encrypted(self) -> bool:
        """Whether connections are encrypted, and only those with enrolled keys let in."""
        return self.security == "curve"


class RequireSection(Section, frozen=True):
    """`[require]`: what clients of a service must have said of their devices to be asked; the defaults ask nothing."""

    tags: list[str] = []
    classes: list[str] = []
    min_memory_mib: NotNegative = 0
    cuda: bool = False
    source: str = ""


class ReportSection(Section, frozen=True):
    """`[report]`: what is made of a run's figures at its end, and where the live page listens while it goes on."""

    page: bool = True
    tensorboard: bool = False
    mlflow: bool = False
    dashboard: str = ""

    @property
    def forms(self) -> list[str]:
        """The forms of all that is wanted."""
        return [form for key, form in AUTOMATIC.items() if getattr(self, key)]


class RunConfig(Section, frozen=True):
    """All of `run.toml`; what `load` returns is checked and has every key of `[method]` filled in."""

    run: RunSection = RunSection()
    method: dict[str, Any] = {}
    round: RoundSection = RoundSection()
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    wire: WireConfig = WireConfig()
    gate: GateSection = GateSection()
    tasks: TasksConfig = TasksConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    require: RequireSection = RequireSection()
    transport: TransportSection = TransportSection()
    report: ReportSection = ReportSection()
    simulation: SimulationSection = SimulationSection()

    @property
    def method_name(self) -> str:
        """The name that `models.methods.find` knows the method by."""
        return str(self.method["name"])

    @property
    def min_available_clients(self) -> int:
        """How many clients must be there before a round opens."""
        return self.round.min_available_clients or self.data.num_clients

    def round_rules(self, num_exchanges: int, mode: str) -> RoundRules:
        """Return what decides when an exchange closes, for a method of so many exchanges a round and a run of a mode.

        To a run of `serve` others may come than the clients that it has; those of any other mode are its own.
        """
        return RoundRules(
            seed=self.run.seed,
            num_rounds=self.run.num_rounds,
            num_exchanges=num_exchanges,
            fraction=self.round.fraction,
            num_clients=self.data.num_clients,
            min_clients=self.round.min_clients,
            min_available_clients=self.min_available_clients,
            deadline_s=self.round.deadline_s,
            max_exchange_s=self.round.max_exchange_s,
            max_failed_rounds=self.round.max_failed_rounds,
            others_may_come=mode == "serve",
        )

    def spec(self, run_id: str, classes: Sequence[str]) -> RunSpec:
        """Return what clients need to know of the run, over this label map.

        Raises:
            ConfigError: there are more classes than can be told of, more classes are to be public than there are, or
                tasks than classes or rounds, or the method's settings do not fit the run.
        """
        spec = self.unchecked_spec(run_id, classes)
        spec.check_tasks()
        check_label_map(spec)
        methods.check(spec)
        check_file(spec.model)
        return spec

    def unchecked_spec(self, run_id: str, classes: Sequence[str]) -> RunSpec:
        """Return the same of a run that has begun, be it that its classes or its files are not here to be looked at."""
        return RunSpec(
            run_id=run_id,
            seed=self.run.seed,
            num_rounds=self.run.num_rounds,
            method=self.method_name,
            method_config={key: value for key, value in self.method.items() if key != "name"},
            classes=list(classes),
            data=self.data.settled(methods.find(self.method_name).public_per_class, len(classes)),
            model=self.model,
            training=self.training,
            evaluation=self.evaluation,
            wire=self.wire,
            tasks=self.tasks,
            privacy=self.privacy,
        )

    def modules_not_here(self) -> list[str]:
        """Return a line for each part whose module cannot be found here, as the coordinator of `serve` needs none."""
        named = [("[data] dataset", self.data.dataset), ("[data] partition", self.data.partition)]
        named += [("the method's client", methods.find(self.method_name).client)]
        named += [("[model] name", self.model.name), *(("[model] names", name) for name in self.model.names)]
        told = "there is no such module here; loopback, simulate and every device need it"
        return [f"{key} = {name!r}: {told}" for key, name in named if not is_here(name)]

    def check_all_here(self) -> None:
        """Refuse a run whose clients this machine works for, of which a part is nowhere here.

        Raises:
            ConfigError: the text names the part.
        """
        needs_numpy = any(is_frozen(name) for name in (self.model.name, *self.model.names))
        halves = ("server", "client", "net", *(["client_numpy"] if needs_numpy else []))
        check_halves(methods.find(self.method_name), halves)
        for told in self.modules_not_here():
            raise ConfigError(told)

    def to_toml(self) -> str:
        """Return the whole config as TOML; `load` reads the same config from it."""
        tables = msgspec.to_builtins(self)
        # TOML has no null: a setting that is None is left out, which means the same.
        tables["method"] = {key: value for key, value in tables["method"].items() if value is not None}
        return tomli_w.dumps(tables)


def load(path: Path | None, settings: Sequence[str], mode: str = "serve") -> RunConfig:
    """Read and check a run's settings: the file (none: all defaults), and each `--set table.key=value` over it.

    Clients of a run of the mode `loopback` connect to any free port unless these say where.

    Raises:
        ConfigError: the text names the key, what was expected and what came.
    """
    of_file = read_toml(path) if path else {}
    if mode == "loopback":
        of_file = {**of_file, "transport": {"bind": FREE_PORT, **of_file.get("transport", {})}}
    return read(of_file, settings, source_of(path, settings))


def read(of_file: Tables, settings: Sequence[str], where: str) -> RunConfig:
    """Check a run's settings: the tables of a file, and each `--set` over them; `where` is what an error calls them.

    Raises:
        ConfigError: see `load`.
    """
    tables = _without_other_methods_keys(of_file, settings)
    check_owner(tables, RunConfig.__struct_fields__, where)
    config = read_section(RunConfig, tables, where, _keys_of_method(tables))
    _check_places(config, where)
    _check_parts(config, where)
    config = msgspec.structs.replace(config, round=_read_round(config, tables.get("round", {}), where))
    _check_simulation(config, where)
    return msgspec.structs.replace(config, method=_read_method(config, where))


def _without_other_methods_keys(of_file: Tables, settings: Sequence[str]) -> Tables:
    """Return all tables; where a setting names another method than the file, the file's keys of `[method]` go."""
    name = apply_settings({}, settings).get("method", {}).get("name")
    is_other = name is not None and name != of_file.get("method", {}).get("name", methods.default().name)
    kept = {table: keys for table, keys in of_file.items() if table != "method" or not is_other}
    return apply_settings(kept, settings)


def _keys_of_method(tables: Tables) -> dict[str, Collection[str]]:
    """Return the keys of `[method]`, under its name; no key if there is no such method."""
    name = tables.get("method", {}).get("name", methods.default().name)
    try:
        return {"method": methods.find(name).config.__struct_fields__ if isinstance(name, str) else ()}
    except ConfigError:
        return {}


def _check_places(config: RunConfig, where: str) -> None:
    if config.run.name and not is_plain_name(config.run.name):
        raise refusal(where, "run.name", config.run.name, f"nothing, or {NAME_FORM}")
    if config.report.dashboard and split_address(config.report.dashboard) is None:
        raise refusal(where, "report.dashboard", config.report.dashboard, f"nothing, or {ADDRESS_FORM}")
    if config.report.dashboard and config.run.store == "memory":
        expected = "nothing, because the live page reads the store, which [run] store = 'memory' keeps from it"
        raise refusal(where, "report.dashboard", config.report.dashboard, expected)
    if not config.run.dir:
        raise refusal(where, "run.dir", config.run.dir, "a folder")
    check_transport(config.transport, where)


def check_transport(transport: TransportSection, where: str) -> None:
    """Refuse an address that is none, one that others reach without encryption, and keys that are nowhere.

    Raises:
        ConfigError: as the name says.
    """
    address = split_address(transport.bind)
    if address is None:
        raise refusal(where, "transport.bind", transport.bind, ADDRESS_FORM)
    if not transport.is_encrypted and not is_loopback(address[0]):
        expected = (
            "a loopback address such as 127.0.0.1:7071, because security = 'none' sends everything unencrypted and "
            "lets anyone in; leave out security, and make keys (coordinator keys init)"
        )
        raise refusal(where, "transport.bind", transport.bind, expected)
    if not transport.keys:
        raise refusal(where, "transport.keys", transport.keys, "a folder")


def _check_parts(config: RunConfig, where: str) -> None:
    """Check the names of data set, partition and net against what there is."""
    check_part("data.dataset", "dataset", config.data.dataset, DATASETS, where)
    check_part("data.partition", "partition", config.data.partition, PARTITIONS, where)
    check_part("model.name", "net", config.model.name, NET_NAMES, where)
    for name in config.model.names:
        check_part("model.names", "net", name, NET_NAMES, where)


def _read_round(config: RunConfig, table: Mapping[str, Any], where: str) -> RoundSection:
    """Return `[round]` with its numbers checked against each other; a default `min_clients` fits smaller runs."""
    section, available = config.round, config.min_available_clients
    if available > config.data.num_clients:
        expected = f"at most data.num_clients = {config.data.num_clients}, or 0 for all of them"
        raise refusal(where, "round.min_available_clients", available, expected)
    if "min_clients" not in table:
        section = msgspec.structs.replace(section, min_clients=min(section.min_clients, available))
    if section.min_clients > available:
        expected = f"at most {available}, the clients there are when a round opens (round.min_available_clients)"
        raise refusal(where, "round.min_clients", section.min_clients, expected)
    if section.deadline_s > section.max_exchange_s:
        expected = f"at most max_exchange_s = {section.max_exchange_s}"
        raise refusal(where, "round.deadline_s", section.deadline_s, expected)
    return section


def _check_simulation(config: RunConfig, where: str) -> None:
    """Check who works, the profiles, and that rounds can open where some client is not there all the time."""
    if config.simulation.ray_address and config.simulation.executor != "ray":
        expected = "nothing, unless executor = 'ray' (--executor ray)"
        raise refusal(where, "simulation.ray_address", config.simulation.ray_address, expected)
    try:
        profiles = config.simulation.fleet_profiles()
    except ConfigError as error:
        raise ConfigError(f"{where} [simulation] profiles: {error}") from None
    available = config.min_available_clients
    if available == config.data.num_clients and any(profile.availability < 1 for profile in profiles):
        expected = f"less than data.num_clients = {available}, as a profile's client is not there all the time"
        raise refusal(where, "round.min_available_clients", config.round.min_available_clients, expected)


def _read_method(config: RunConfig, where: str) -> dict[str, Any]:
    """Return `[method]` with every key of the method's own settings, and check the headline rule against the method."""
    own = dict(config.method)
    name = own.pop("name", methods.default().name)
    if not isinstance(name, str):
        raise refusal(where, "method.name", name, "the name of a method")
    try:
        method = methods.find(name)
    except ConfigError as error:
        raise ConfigError(f"{where} [method]: {error}") from None
    try:
        section = methods.read_config(method, own, keys_by_table(RunConfig))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    _check_rule(config.evaluation.rule, method, where)
    try:
        check_noise(config.privacy, method, config.evaluation.rule)
    except ConfigError as error:
        raise ConfigError(f"{where} {error}") from None
    for net in (config.model.name, *config.model.names):
        method.check_net(net)
    if method.shares_model and len(set(config.model.names)) > 1:
        expected = f"one net for all clients, as {method.name} averages whole nets"
        raise refusal(where, "model.names", config.model.names, expected)
    return {"name": name, **msgspec.to_builtins(section)}


def _check_rule(rule: str, method: Method, where: str) -> None:
    rules = ("auto", *method.rules)
    if rule not in rules:
        raise ConfigError(f"{where} [evaluation]: unknown rule {rule!r} of {method.name}; {nearest(rule, rules)}")
