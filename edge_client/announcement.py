"""What a device says of itself, so that a run may require it of its clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil

from edge_client.config import ClientConfig

GPU_DEVICES = ("/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu")
"""One of these is there where CUDA is: on a workstation, or on a Jetson of an older or a newer system."""


def announcement(config: ClientConfig) -> dict[str, Any]:
    """Return tags, classes, memory, GPU and data source, for the `device` of a hello."""
    has_cuda = config.training.device != "cpu" and any(Path(path).exists() for path in GPU_DEVICES)
    return {
        "tags": config.client.tags,
        "classes": config.client.classes,
        "memory_bytes": psutil.virtual_memory().total,
        "cuda": has_cuda,
        "source": config.data.source,
        "index": config.data.index if config.data.source == "run" else None,
    }
