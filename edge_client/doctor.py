"""`edge-client doctor`: everything about this device that matters to a run, in one report to paste."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from wire.sockets.zeromq import has_curve, libzmq_version
from wire.version import PROTOCOL_VERSION

PACKAGES = ("numpy", "pyzmq", "msgpack", "msgspec", "psutil", "safetensors", "torch", "torchvision", "onnxruntime")
"""What a client may work with; the last three are needed for some runs only."""

NOT_INSTALLED = "not installed"

OLDEST_LIBZMQ = (4, 3)
"""Older ones have no handshake events in their socket monitor."""


def report() -> str:
    """Return the report; what cannot be found out says why in its place."""
    sections: tuple[tuple[str, Callable[[], str]], ...] = (
        ("protoedge", lambda: f"{_version('protoedge')}, protocol {PROTOCOL_VERSION}"),
        ("python", lambda: f"{platform.python_version()} ({sys.executable})"),
        ("system", lambda: f"{platform.system()} {platform.release()}, {platform.machine()}, {_board()}"),
        ("cpu", lambda: f"{_cpu()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores usable"),
        ("memory", _memory),
        ("disk", _disk),
        ("packages", lambda: ", ".join(f"{name} {_version(name)}" for name in PACKAGES)),
        ("libzmq", _libzmq),
        ("torch", _torch),
        ("onnxruntime", _onnxruntime),
    )
    return "\n".join(f"{name:<12} {_told(find)}" for name, find in sections)


def problems() -> Iterator[str]:
    """Yield what keeps this device from taking part in any run."""
    if libzmq_version()[:2] < OLDEST_LIBZMQ:
        yield f"libzmq {_dotted(libzmq_version())} is older than {_dotted(OLDEST_LIBZMQ)}: install a newer pyzmq"
    if not has_curve():
        yield "libzmq cannot encrypt: install a pyzmq whose libzmq has CURVE, as its wheels do"


def _told(find: Callable[[], str]) -> str:
    try:
        return find()
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


def _board() -> str:
    model = Path("/proc/device-tree/model")
    return model.read_text().strip("\0 \n") if model.exists() else "no device tree"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return "unnamed CPU"


def _memory() -> str:
    import psutil

    memory = psutil.virtual_memory()
    return f"{memory.total / 2**30:.1f} GiB, {memory.available / 2**30:.1f} GiB available"


def _disk() -> str:
    import psutil

    return f"{psutil.disk_usage('.').free / 2**30:.1f} GiB free in {Path.cwd()}"


def _libzmq() -> str:
    return f"{_dotted(libzmq_version())}, CURVE {'yes' if has_curve() else 'no'}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _torch() -> str:
    if _version("torch") == NOT_INSTALLED:
        return NOT_INSTALLED
    import torch

    if not torch.cuda.is_available():
        return f"{torch.__version__}, {torch.get_num_threads()} threads, no CUDA device"
    devices = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return f"{torch.__version__}, {torch.get_num_threads()} threads, CUDA {torch.version.cuda}: {devices}"


def _onnxruntime() -> str:
    if _version("onnxruntime") == NOT_INSTALLED:
        return NOT_INSTALLED
    import onnxruntime

    return f"{onnxruntime.__version__}, providers {', '.join(onnxruntime.get_available_providers())}"
