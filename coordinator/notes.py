"""What is worth saying of a run before it begins: settings that nothing goes by, and what its method has to say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from coordinator.config import RunConfig
from coordinator.rounds import Rounds
from models import methods
from models.data import DATASETS, WITHOUT_FILES
from models.datasets.torchvision_names import TORCHVISION
from models.methods.api import Method
from models.nets import NET_KEYS, NET_NAMES
from models.partition import PARTITION_KEYS, PARTITIONS
from models.spec import RunSpec


def goes_on(rounds: Rounds, method: Method) -> str:
    """Return where a run goes on that has begun before, in a line for people."""
    return f"the run goes on in round {rounds.round}, exchange {method.exchange(rounds.exchange).name!r}"


def run_notes(config: RunConfig, spec: RunSpec, needs_torch: bool = False) -> list[str]:
    """Return lines for people; `needs_torch` says that this process works for clients, too."""
    costs = [] if needs_torch else _of_memory(spec.method)
    return [*unused_keys(config), *costs, *methods.notes(spec)]


def _of_memory(method: str) -> Iterator[str]:
    if methods.brings_torch(method):
        told = "which costs it and its aggregator hundreds of megabytes; import it inside the client half"
        yield f"method {method!r} imports torch in the coordinator, {told}"


def unused_keys(config: RunConfig) -> list[str]:
    """Return a line for each key that differs from its default and that the run does not use, where that is sure."""
    return [*_of_nets(config), *_of_data(config), *_of_training(config), *_of_privacy(config)]


def _of_nets(config: RunConfig) -> Iterator[str]:
    names = config.model.names or [config.model.name]
    if all(name in NET_NAMES for name in names):
        yield from _set_for_nothing("model", config.model, _of_others(NET_KEYS, names), " or ".join(names))


def _of_data(config: RunConfig) -> Iterator[str]:
    data = config.data
    if data.dataset in WITHOUT_FILES:
        yield from _set_for_nothing("data", data, ["root"], data.dataset)
    if data.dataset in DATASETS and data.dataset not in TORCHVISION:
        yield from _set_for_nothing("data", data, ["download"], data.dataset)
    if data.partition in PARTITIONS:
        others = _of_others(PARTITION_KEYS, [data.partition])
        yield from _set_for_nothing("data", data, others, f"partition = {data.partition!r}")


def _of_training(config: RunConfig) -> Iterator[str]:
    training = config.training
    if training.optimizer != "sgd":
        yield from _set_for_nothing("training", training, ["momentum"], f"optimizer = {training.optimizer!r}")
    if training.local_steps:
        yield from _set_for_nothing("training", training, ["local_epochs"], f"local_steps = {training.local_steps}")


def _of_privacy(config: RunConfig) -> Iterator[str]:
    if not config.privacy.adds_noise:
        yield from _set_for_nothing("privacy", config.privacy, ["clip_norm", "delta"], "noise_multiplier = 0")


def _of_others(keys: Mapping[str, Collection[str]], names: Collection[str]) -> set[str]:
    """Return the keys that only parts of other names have."""
    used = {key for name in names for key in keys.get(name, ())}
    return {key for each in keys.values() for key in each} - used


def _set_for_nothing(table: str, section: msgspec.Struct, keys: Iterable[str], by: str) -> Iterator[str]:
    default = type(section)()
    for key in sorted(keys):
        value = getattr(section, key)
        if value != getattr(default, key):
            yield f"[{table}] {key} = {value!r}: not used by {by}"
