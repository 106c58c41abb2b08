"""`client.toml`: what is the device's own affair: its id, its coordinator, its samples, what it computes on."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edge_client.windows import read_window
from models.nets import NET_NAMES
from models.settings import (
    ADDRESS_FORM,
    NAME_FORM,
    check_owner,
    check_part,
    is_loopback,
    is_plain_name,
    read_tables,
    refusal,
    source_of,
    split_address,
)
from models.spec import (
    MAX_THREADS,
    ConfigError,
    IntervalSeconds,
    NotNegative,
    PositiveReal,
    Seconds,
    Section,
    read_section,
)
from wire.sockets.keys import KEY_FORM, is_key

SOURCES = ("run", "folder", "npz")
"""What `[data] source` may be, beside `package.module:factory` and the names of installed packages."""

MIN_MEMORY_MIB = 128
"""No trainer can start with less: Python with numpy alone takes more."""

_ROOTS = {
    "folder": "a folder with a folder of images for each class (source = 'folder' needs it)",
    "npz": "an npz file (source = 'npz' needs it)",
}

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class ClientSection(Section, frozen=True):
    """`[client]`: the id under which the coordinator counts this device, and where its state survives a restart."""

    id: str = ""
    dir: str = "client-state"
    plugins: list[str] = []
    """`module:attribute` names that a run may ask this device for, beside the installed methods, data sets and nets."""
    plugin_dir: str = ""
    """Where their modules are, seen from the folder of `client.toml`; empty for that folder itself."""
    paths: list[str] = []
    """Folders and files of this device that a run may name: its data set, its rows, a backbone's weights."""
    downloads: bool = False
    """Whether a run may have this device fetch its data set from the internet."""
    key: str = ""
    """The file of its secret key; empty for `client.secret` in its folder."""
    tags: list[str] = []
    """What a run may require of its clients, in words of one's own."""
    classes: list[str] = []
    """Classes that this device has samples of, where a run may require some."""
    keep_days: PositiveReal = 30.0
    """How long what earlier runs left on this device is kept ..."""
    keep_mib: PositiveReal = 1024.0
    """... if all of it takes no more than this; the oldest goes first."""
    noise: Literal["secret", "seed"] = "secret"
    """What the noise of a run with `[privacy]` follows from: a secret of this device, or the run's seed, for trials."""


class CoordinatorSection(Section, frozen=True):
    """`[coordinator]`: the one outbound connection, and the key that the other end must have."""

    address: str = "127.0.0.1:7071"
    security: Literal["curve", "none"] = "curve"
    public_key: str = ""


class DataSourceSection(Section, frozen=True):
    """`[data]`: `run` takes part `index` of the run's own partition, all others what is in `root`.

    That is the images of `folder`, the arrays of `npz`, or whatever `package.module:factory` makes a data set of.
    """

    source: str = "run"
    root: str = ""
    index: NotNegative | None = None
    unknown_labels: Literal["refuse", "skip"] = "refuse"


class DeviceModelSection(Section, frozen=True):
    """`[model]`: a net of this device's own, and where its file is; empty, 0 and false stand for the run's."""

    name: str = ""
    feature_dim: NotNegative = 0
    path: str = ""
    provider: str = ""
    provider_fallback: bool = False


class DeviceTrainingSection(Section, frozen=True):
    """`[training]`: what to compute on; 0 threads stand for the run's."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, msgspec.Meta(ge=0, le=MAX_THREADS)] = 0


class LimitsSection(Section, frozen=True):
    """`[limits]`: what the trainer may take of this device; 0 stands for no limit."""

    nice: Annotated[int, msgspec.Meta(ge=0, le=19)] = 0
    memory_mib: Annotated[int, msgspec.Meta(ge=0, le=2**32)] = 0
    """RLIMIT_DATA of the trainer; at least MIN_MEMORY_MIB."""


class ScheduleSection(Section, frozen=True):
    """`[schedule]`: when to train: inside `windows` of local time, and while the command `hook` ends with 0."""

    windows: list[str] = []
    hook: str = ""
    hook_every_s: IntervalSeconds = 60.0
    hook_timeout_s: Seconds = 10.0


class ClientConfig(Section, frozen=True):
    """All of `client.toml`, checked."""

    client: ClientSection = ClientSection()
    coordinator: CoordinatorSection = CoordinatorSection()
    data: DataSourceSection = DataSourceSection()
    model: DeviceModelSection = DeviceModelSection()
    training: DeviceTrainingSection = DeviceTrainingSection()
    limits: LimitsSection = LimitsSection()
    schedule: ScheduleSection = ScheduleSection()


def load(path: Path | None, settings: Sequence[str]) -> ClientConfig:
    """Read and check a client's settings: the file, and each `--set table.key=value` over it.

    Raises:
        ConfigError: the text names the key, what was expected and what came.
    """
    where = source_of(path, settings)
    tables = read_tables(path, settings)
    check_owner(tables, ClientConfig.__struct_fields__, where)
    config = read_section(ClientConfig, tables, where)
    _check_identity(config, where)
    _check_source(config.data, where)
    _check_limits(config.limits, where)
    _check_schedule(config.schedule, where)
    if config.model.name:
        check_part("model.name", "net", config.model.name, NET_NAMES, where)
    return config


def _check_identity(config: ClientConfig, where: str) -> None:
    client, coordinator = config.client, config.coordinator
    if not is_plain_name(client.id):
        raise refusal(where, "client.id", client.id, NAME_FORM)
    if not client.dir:
        raise refusal(where, "client.dir", client.dir, "a folder")
    for plugin in client.plugins:
        if not _REFERENCE.fullmatch(plugin):
            raise refusal(where, "client.plugins", plugin, "module:attribute, such as my_package.my_method:METHOD")
    for path in client.paths:
        if not path:
            raise refusal(where, "client.paths", path, "a folder or a file, such as . for the one to start in")
    _check_coordinator(coordinator, where)


def _check_coordinator(coordinator: CoordinatorSection, where: str) -> None:
    host, port = split_address(coordinator.address) or ("", 0)
    if port == 0:
        raise refusal(where, "coordinator.address", coordinator.address, f"{ADDRESS_FORM}, the port not 0")
    if coordinator.public_key and not is_key(coordinator.public_key):
        expected = f"{KEY_FORM}, as `coordinator keys init` prints them"
        raise refusal(where, "coordinator.public_key", coordinator.public_key, expected)
    if coordinator.security == "none" and not is_loopback(host):
        expected = "a loopback address such as 127.0.0.1:7071, because security = 'none' sends everything unencrypted"
        raise refusal(where, "coordinator.address", coordinator.address, expected)


def _check_source(data: DataSourceSection, where: str) -> None:
    if data.source == "run" and data.index is None:
        expected = "which part of the run's data this device has, from 0 (source = 'run' needs it)"
        raise ConfigError(f"{where} [data]: index is missing: expected {expected}")
    check_part("data.source", "data_source", data.source, SOURCES, where)
    if data.source in _ROOTS and not data.root:
        raise refusal(where, "data.root", data.root, f"the path of {_ROOTS[data.source]}")


def _check_limits(limits: LimitsSection, where: str) -> None:
    if limits.memory_mib and sys.platform != "linux":
        raise refusal(where, "limits.memory_mib", limits.memory_mib, "0, as only Linux bounds another process's memory")
    if 0 < limits.memory_mib < MIN_MEMORY_MIB:
        expected = f"at least {MIN_MEMORY_MIB}, without which no trainer can start, or 0 for no limit"
        raise refusal(where, "limits.memory_mib", limits.memory_mib, expected)


def _check_schedule(schedule: ScheduleSection, where: str) -> None:
    for window in schedule.windows:
        if read_window(window) is None:
            raise refusal(where, "schedule.windows", window, "two times of day that differ, such as 22:00-06:00")
    try:
        words = shlex.split(schedule.hook)
    except ValueError as error:
        raise refusal(where, "schedule.hook", schedule.hook, f"a command line ({error})") from None
    if schedule.hook and not (words and words[0]):
        raise refusal(where, "schedule.hook", schedule.hook, "a command line, or nothing for none")
