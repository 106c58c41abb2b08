"""What a device says of itself, so that a run may require it of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge_client.config import ClientConfig


def announcement(config: ClientConfig, device: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a device tells, and tags, classes, data source and GPU, for a hello.

    `data_index` is the part of the run's data that it has, if it has one.
    """
    part = {"data_index": config.data.index} if config.data.source == "run" else {}
    return {
        **device,
        "tags": config.client.tags,
        "classes": config.client.classes,
        "source": config.data.source,
        "cuda": "gpu" in device and config.training.device != "cpu",
        **part,
    }
