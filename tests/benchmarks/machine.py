"""The machine that figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "pyzmq", "msgpack", "msgspec", "safetensors")


def facts() -> dict[str, Any]:
    """Return processor, cores, load and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
