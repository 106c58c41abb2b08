"""Where a client's samples come from: a part of the run's own data set, or what the device has itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from edge_client.config import ClientConfig, DataSourceSection
from edge_client.local_state import SampleFile
from models.data import ClientData, load_client_data
from models.datasets import npz
from models.label_map import onto_label_map
from models.registry import installed
from models.spec import DataConfig, RunSpec, TasksConfig


class DataSource(Protocol):
    """What a client reads its samples from."""

    @property
    def files(self) -> list[SampleFile] | None:
        """The files of the samples that were returned last, None if samples are no files of their own."""
        ...

    def look(self, begun_with: Sequence[SampleFile] | None = None) -> ClientData:
        """Return the samples that are there, or of these files those that still are; the same object if all is as ever.

        Raises:
            ConfigError: the data is missing or malformed, or has labels outside the run's label map.
        """
        ...


class Fixed:
    """Samples that stay what they were when the run began."""

    files = None

    def __init__(self, data: ClientData) -> None:
        self._data = data

    def look(self, begun_with: Sequence[SampleFile] | None = None) -> ClientData:
        """Return the samples."""
        return self._data


def open_source(spec: RunSpec, settings: ClientConfig) -> DataSource:
    """Return the source that `[data] source` names.

    Raises:
        ConfigError: see `DataSource.look`.
    """
    section = settings.data
    if section.source == "run":
        assert section.index is not None
        return Fixed(load_client_data(spec, section.index))
    if section.source == "folder":
        from edge_client.image_folder import ImageFolder

        return ImageFolder(section.root, spec.classes, spec.data, section.unknown_labels)
    config = _own(spec, section)
    data = load_client_data(msgspec.structs.replace(spec, data=config, tasks=TasksConfig()), 0)
    return Fixed(onto_label_map(data, spec.classes, section.unknown_labels))


def _own(spec: RunSpec, section: DataSourceSection) -> DataConfig:
    """Return `[data]` of a data set that is this device's own: the run's, but for what is read and how it is spread."""
    own = msgspec.structs.replace(
        spec.data,
        dataset=installed("data_source").get(section.source, section.source),
        root=section.root,
        download=False,
        classes=[],
        partition="iid",
        num_clients=1,
        min_size=0,
        public_per_class=0,
    )
    has_names = section.source == "npz" and npz.own_names(own)
    return own if has_names else msgspec.structs.replace(own, classes=spec.classes)
