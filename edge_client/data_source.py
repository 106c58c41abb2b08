"""Where a client's samples come from: a part of the run's own data set, or the device's own file."""

from __future__ import annotations

import msgspec

from edge_client.config import ClientConfig
from models.data import ClientData, load_client_data
from models.spec import DataConfig, RunSpec


def load_data(spec: RunSpec, settings: ClientConfig) -> ClientData:
    """Return train and test samples as `[data] source` says.

    Raises:
        ConfigError: the data is missing, malformed, or has labels outside the run's label map.
    """
    if settings.data.source == "run":
        assert settings.data.index is not None
        return load_client_data(spec, settings.data.index)
    own = DataConfig(
        dataset="npz",
        root=settings.data.root,
        partition="iid",
        num_clients=1,
        min_size=0,
        tokens=spec.data.tokens,
        test_fraction=spec.data.test_fraction,
        classes=spec.classes,
    )
    return load_client_data(msgspec.structs.replace(spec, data=own), 0)
