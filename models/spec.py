"""What a run is, as far as its mathematics go: the sections of `run.toml` that clients need, and how they travel.

`read_section` is the strict reader of every TOML table and of the spec that a `Welcome` carries: an unknown key is an
error that names the nearest one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from models.tasks import TaskPlan

StructT = TypeVar("StructT", bound=msgspec.Struct)

MAX_REAL = 3.4e38
"""Nets are trained in float32, which holds no more."""

MAX_THREADS = 1024
"""More end the process that starts them."""

MAX_LETTERS = 1000
"""No error is told in more: torch lists every layer of a net that does not fit."""

YEAR_S = 366 * 24 * 3600.0

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Size = Annotated[int, msgspec.Meta(ge=1, le=2**20)]
"""A width of a net, or a number of clients: no more fit into any memory."""
NotNegative = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Real = Annotated[float, msgspec.Meta(ge=-MAX_REAL, le=MAX_REAL)]
PositiveReal = Annotated[float, msgspec.Meta(gt=0, le=MAX_REAL)]
NotNegativeReal = Annotated[float, msgspec.Meta(ge=0, le=MAX_REAL)]
VocabSize = Annotated[int, msgspec.Meta(ge=2, le=2**31 - 1)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]
PartOrAll = Annotated[float, msgspec.Meta(gt=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=YEAR_S)]
"""A wait: above 0 and, as none is unbounded, a year at most."""
IntervalSeconds = Annotated[float, msgspec.Meta(ge=0.1, le=YEAR_S)]
"""How often something is done, which is seldom enough to leave time for anything else."""


class ConfigError(Exception):
    """A setting that cannot be used; the text names the key, what was expected and what came."""


class NoSpaceError(ConfigError):
    """A command cannot begin or go on because the disk is full; once it is not, the same command can."""


def unusable(text: str, is_full: bool) -> ConfigError:
    """Return the error that a text tells of; `is_full` where it is for want of space on the disk."""
    return NoSpaceError(text) if is_full else ConfigError(text)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parent of every table of settings."""


class DataConfig(Section, frozen=True):
    """`[data]`: which samples there are and how they are spread over the clients."""

    dataset: str = "digits"
    root: str = ""
    download: bool = False
    tokens: bool = False
    image_size: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 32
    channels: Literal[1, 3] = 3
    mean: list[Real] = []
    std: list[PositiveReal] = []
    classes: list[str] = []
    pool: Literal["all", "train"] = "all"
    partition: str = "dirichlet"
    alpha: PositiveReal = 0.5
    min_size: NotNegative = 10
    num_clients: Size = 4
    test_fraction: Share = 0.25
    classes_per_client: Positive = 2
    shards_per_client: Positive = 2
    ways: Positive = 3
    ways_half_range: NotNegative = 2
    shots: Positive = 20
    shots_half_range: NotNegative = 2
    test_shots: NotNegative = 15
    ratio: PartOrAll = 0.5
    indices: str = ""
    public_per_class: NotNegative | Literal["auto"] = "auto"
    public_classes: Positive | Literal["auto"] = "auto"

    @property
    def num_public_classes(self) -> int:
        """How many classes have public samples, the first so many; none while `settled` has not been asked."""
        is_settled = isinstance(self.public_per_class, int) and isinstance(self.public_classes, int)
        return int(self.public_classes) if is_settled and self.public_per_class else 0

    def settled(self, public_per_class: int, num_classes: int) -> DataConfig:
        """Return this with numbers for `auto`: the method's own `public_per_class`, and half of all classes.

        Raises:
            ConfigError: there are fewer classes than are to be public.
        """
        per_class = public_per_class if self.public_per_class == "auto" else self.public_per_class
        half = (num_classes + 1) // 2
        num_public = half if self.public_classes == "auto" else self.public_classes
        if num_public > num_classes:
            raise ConfigError(f"[data] public_classes = {num_public}: expected at most {num_classes}, all classes")
        return msgspec.structs.replace(self, public_per_class=per_class, public_classes=num_public)


class ModelConfig(Section, frozen=True):
    """`[model]`: the net, split into a feature extractor of width `feature_dim` and a linear head.

    `names` gives clients different nets, in turn by their index; the keys from `norm` to `weights` go to the nets that
    have them, and those behind them are of `onnx`, a frozen backbone in a file.
    """

    name: str = "cnn"
    names: list[str] = []
    feature_dim: Size = 50
    init: Literal["common", "per_client"] = "common"
    norm: Literal["batch", "group"] = "batch"
    vocab_size: VocabSize = 32_768
    patch_size: Size = 7
    depth: Size = 4
    num_heads: Size = 4
    weights: str = ""
    path: str = ""
    provider: str = "auto"
    provider_fallback: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the keys that go to the nets that have them."""
        own = ("norm", "vocab_size", "patch_size", "depth", "num_heads", "weights")
        return {key: getattr(self, key) for key in own}

    def name_for(self, index: int | None) -> str:
        """Return the net of the client with this index among the run's parts; one without data of the run has none.

        Raises:
            ConfigError: clients have different nets and this one has no index.
        """
        if not self.names:
            return self.name
        if index is None and len(set(self.names)) > 1:
            raise ConfigError(f"[model] names = {self.names}: a client without an index must name its own net")
        return self.names[(index or 0) % len(self.names)]


class TrainingConfig(Section, frozen=True):
    """`[training]`: the one training loop of all methods.

    `local_steps` other than 0 takes the place of `local_epochs`: exactly so many batches in each round.
    """

    local_epochs: NotNegative = 2
    local_steps: NotNegative = 0
    batch_size: Positive = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: PositiveReal = 0.05
    momentum: Share = 0.9
    weight_decay: NotNegativeReal = 0.0
    clip_norm: NotNegativeReal = 0.0
    threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_THREADS)] = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"


class EvaluationConfig(Section, frozen=True):
    """`[evaluation]`: the headline rule (`auto`: the method's own), the interval in rounds, and whose test samples."""

    rule: str = "auto"
    every: Positive = 1
    test: Literal["own", "global"] = "own"


class TasksConfig(Section, frozen=True):
    """`[tasks]`: how many tasks the classes come in, one after the other; 1 is all classes from the first round on."""

    num_tasks: Positive = 1


class PrivacyConfig(Section, frozen=True):
    """`[privacy]`: whether clients keep their features, with themselves, for `coordinator audit`; the noise of others.

    A `noise_multiplier` other than 0 hides each train sample in noise on the class statistics; see `models.privacy`.
    """

    audit: bool = False
    noise_multiplier: NotNegativeReal = 0.0
    clip_norm: PositiveReal = 1.0
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-5

    @property
    def adds_noise(self) -> bool:
        """Whether what clients tell of their train samples is noised."""
        return self.noise_multiplier > 0


class WireConfig(Section, frozen=True):
    """`[wire]`: how value arrays are encoded."""

    value_dtype: Literal["f32", "f16", "bf16", "i8"] = "f32"


class RunSpec(Section, frozen=True):
    """All that both halves of a method must agree on; travels in the `Welcome`, and its JSON is the run's identity."""

    run_id: str
    seed: int
    num_rounds: int
    method: str
    method_config: dict[str, Any]
    classes: list[str]
    data: DataConfig
    model: ModelConfig
    training: TrainingConfig
    evaluation: EvaluationConfig
    wire: WireConfig
    tasks: TasksConfig = TasksConfig()
    privacy: PrivacyConfig = PrivacyConfig()

    @property
    def num_classes(self) -> int:
        """K, the size of the label map."""
        return len(self.classes)

    @property
    def plan(self) -> TaskPlan:
        """The run's tasks."""
        return TaskPlan(self.tasks.num_tasks, self.num_rounds, self.num_classes)

    def check_tasks(self) -> None:
        """Refuse more tasks than there are classes or rounds.

        Raises:
            ConfigError: as the name says.
        """
        for number, what in ((self.num_classes, "classes"), (self.num_rounds, "rounds (run.num_rounds)")):
            if self.tasks.num_tasks > number:
                raise ConfigError(f"[tasks] num_tasks = {self.tasks.num_tasks}: expected at most {number}, all {what}")


def read_section(
    kind: type[StructT], table: Mapping[str, Any], where: str, others: Mapping[str, Collection[str]] | None = None
) -> StructT:
    """Convert a table to its record.

    Args:
        kind: the record.
        table: what was read.
        where: what to call the table in an error, such as `run.toml [round]`.
        others: the keys of further tables, by table, among which a key may be that stands in the wrong one.

    Raises:
        ConfigError: an unknown key (the nearest known one is named, and the same one of another table), a wrong type or
            a value out of range.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    tables = {**(others or {}), **keys_by_table(kind)}
    for key, value in table.items():
        if key not in fields:
            raise ConfigError(f"{where}: unknown key {key!r}; {_place_of(key, fields, tables)}")
        _check_value(fields[key].type, key, value, where, tables)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None


def keys_by_table(kind: type[msgspec.Struct]) -> dict[str, Collection[str]]:
    """Return the keys of each table that a record consists of."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: field.type.__struct_fields__ for field in fields if _is_table(field.type)}


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _place_of(key: str, known: Collection[str], tables: Mapping[str, Collection[str]]) -> str:
    """Return the hint for an unknown key: what it is near to, and the same key of other tables; or all known ones."""
    elsewhere = [f"{table}.{key}" for table, keys in tables.items() if key in keys]
    if not elsewhere:
        return nearest(key, known)
    return f"did you mean {' or '.join([*map(repr, _near(key, known)), *elsewhere])}?"


def missing_package(what_needs: str, package: str, extra: str) -> ConfigError:
    """Return the error that a package is not here, with what to install."""
    return ConfigError(f"{what_needs} {package}: pip install {package}, which 'protoedge[{extra}]' has too")


def in_one_line(text: str) -> str:
    """Return what an error says in one line of a bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LETTERS else f"{line[:MAX_LETTERS]} ..."


def nearest(name: str, known: Collection[str]) -> str:
    """Return the hint for an unknown name: the nearest known one, or all of them."""
    return did_you_mean(name, known) or (f"known: {', '.join(known)}" if known else "there are none")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return the question for an unknown name that is near to a known one, "" for any other."""
    return "".join(f"did you mean {near!r}?" for near in _near(name, known))


def _near(name: str, known: Collection[str]) -> list[str]:
    """Return the one name that is nearest, if there is one."""
    from difflib import get_close_matches  # memory that nobody needs whose settings are right

    return get_close_matches(name, known, n=1)


def read_spec(table: Mapping[str, Any]) -> RunSpec:
    """Read the spec that a `Welcome` carried.

    Raises:
        ConfigError: the coordinator's spec has keys or values that this version does not know.
    """
    return read_section(RunSpec, table, "the coordinator's run")


def _choices(kind: Any, value: Any) -> str:
    """Return the words of which a value may be one, beside what else it may be; nothing if words are not at issue."""
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if not isinstance(value, str) or not any(get_origin(part) is Literal for part in get_args(kind)):
        return ""
    return " or ".join(
        _choices(part, value) or f"`{getattr(part, '__origin__', part).__name__}`" for part in get_args(kind)
    )


def _check_value(kind: Any, key: str, value: Any, where: str, tables: Mapping[str, Collection[str]]) -> None:
    """Refuse a value that is not of this type, with what was expected and what came."""
    if _is_table(kind) and isinstance(value, Mapping):
        read_section(kind, value, f"{where} [{key}]", tables)
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        choices = _choices(kind, value)
        expected = f"expected {choices}" if choices else str(error).replace("Expected", "expected", 1)
        raise ConfigError(f"{where}: {key} = {value!r}: {expected}") from None
