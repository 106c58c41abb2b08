"""What this device is: told to the coordinator at join, and by `edge-client doctor`.

All of it is read from files, as a daemon asks for it: the libraries that would know take megabytes. What cannot be
found is left out.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("protoedge", "numpy", "torch", "onnxruntime")
"""The packages whose versions are told."""

ROOT = Path("/")


def profile(root: Path = ROOT) -> dict[str, Any]:
    """Return what a device tells of itself; `root` is where `proc` and `etc` are."""
    found = {
        "machine": platform.machine(),
        "board": board(root),
        "cpu": cpu(root),
        "cores": os.cpu_count(),
        "gpu": gpu(root),
        "memory_bytes": memory_bytes(root),
        "has_unified_memory": has_unified_memory(root) or None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{package: installed(package) for package in PACKAGES},
        "host": host(root),
    }
    return {name: value for name, value in found.items() if value is not None}


def board(root: Path = ROOT) -> str | None:
    """Return the board's model, from its device tree or its firmware."""
    for path in ("proc/device-tree/model", "sys/class/dmi/id/product_name"):
        if text := _text(root / path):
            return text
    return None


def cpu(root: Path = ROOT) -> str | None:
    """Return the processor's name."""
    for line in _text(root / "proc/cpuinfo").splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return None


def gpu(root: Path = ROOT) -> str | None:
    """Return the names of NVIDIA's cards, or that the GPU is the board's own."""
    models = [
        line.partition(":")[2].strip()
        for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
        for line in _text(path).splitlines()
        if line.startswith("Model:")
    ]
    return ", ".join(models) or ("integrated" if has_unified_memory(root) else None)


def memory_bytes(root: Path = ROOT) -> int | None:
    """Return the size of main memory."""
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def has_unified_memory(root: Path = ROOT) -> bool:
    """Say whether GPU and CPU share main memory, as on NVIDIA's boards."""
    return "nvidia,tegra" in _text(root / "proc/device-tree/compatible")


def host(root: Path = ROOT) -> str | None:
    """Return a name that clients on one machine have in common, and its sensors with it, and that tells nothing."""
    text = _text(root / "etc/machine-id") or _text(root / "proc/sys/kernel/random/boot_id")
    return hashlib.sha256(f"protoedge {text}".encode()).hexdigest()[:12] if text else None


def installed(package: str, folders: Sequence[str] | None = None) -> str | None:
    """Return the version of an installed package by the name of its folder, None if there is none."""
    for folder in sys.path if folders is None else folders:
        for path in sorted(Path(folder).glob(f"{package}-*.dist-info")):
            return path.name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0 \n")
    except OSError:
        return ""
