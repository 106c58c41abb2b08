"""The device itself: its system, its packages, what it can compute on, and what it can measure."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from edge_client.device import board, cpu, profile
from edge_client.doctor.finding import Finding, found
from edge_client.sensors import Found, find_sensors, told_of
from wire.exit_codes import ExitCode
from wire.sockets.zeromq import has_curve, libzmq_version
from wire.version import PROTOCOL_VERSION

PACKAGES = ("numpy", "pyzmq", "msgpack", "msgspec", "psutil", "safetensors", "torch", "torchvision", "onnxruntime")
"""What a client may work with; the last three are needed for some runs only."""

NOT_INSTALLED = "not installed"

OLDEST_LIBZMQ = (4, 3)
"""Older ones have no handshake events in their socket monitor."""

DAEMON_BYTES, TRAINER_BYTES = 64 << 20, 800 << 20
"""What a daemon needs of memory, and what one whose trainer loads torch does."""

FULL_BYTES, SHORT_BYTES = 64 << 20, 1 << 30
"""With less free disk a client cannot be trusted to keep its state; with less than the other it should be looked at."""

MIN_DESCRIPTORS = 256


def examine_device(folder: Path) -> Iterator[Finding]:
    """Yield what can be said of this device; `folder` is where a client keeps its state."""
    sensors = find_sensors()
    looks: tuple[tuple[str, Callable[[], Finding | str]], ...] = (
        ("protoedge", lambda: f"{_version('protoedge')}, protocol {PROTOCOL_VERSION}"),
        ("python", lambda: f"{platform.python_version()} ({sys.executable})"),
        (
            "system",
            lambda: f"{platform.system()} {platform.release()}, {platform.machine()}, {board() or 'unnamed board'}",
        ),
        ("cpu", lambda: f"{cpu() or 'unnamed CPU'}, {_cores()}"),
        ("memory", _memory),
        ("disk", lambda: _disk(folder)),
        ("descriptors", _descriptors),
        ("packages", lambda: ", ".join(f"{name} {_version(name)}" for name in PACKAGES)),
        ("libzmq", _libzmq),
        ("torch", _torch),
        ("onnxruntime", _onnxruntime),
        ("sensors", lambda: _sensors(sensors)),
        ("told at join", lambda: _told_at_join(sensors)),
    )
    for name, look in looks:
        yield found(name, look)


def _cores() -> str:
    """Say how many cores there are, and how many of them this process may use where the system tells."""
    usable = f"{len(os.sched_getaffinity(0))} of " if sys.platform == "linux" else ""
    return f"{usable}{os.cpu_count()} cores usable"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


def _told_at_join(sensors: Found) -> str:
    """Return what a coordinator hears of this device."""
    return ", ".join(f"{name} {told}" for name, told in {**profile(), **told_of(sensors)}.items())


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    told = f"{_gib(memory.total)}, {_gib(memory.available)} available"
    figures = {"total_bytes": memory.total, "available_bytes": memory.available}
    if memory.available < DAEMON_BYTES:
        return Finding("memory", told, "end what else runs here", ExitCode.BAD_CONFIG, figures)
    is_short = memory.available < TRAINER_BYTES and _version("torch") != NOT_INSTALLED
    advice = "a trainer with torch takes about 0.8 GiB: end what else runs here, or add swap" if is_short else ""
    return Finding("memory", told, advice, figures=figures)


def _disk(folder: Path) -> Finding:
    import psutil

    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = psutil.disk_usage(str(there)).free
    told, figures = f"{_gib(free)} free in {there}", {"free_bytes": free}
    if not os.access(there, os.W_OK | os.X_OK):
        told, advice = f"{told}, which may not be written to", f"chown {os.geteuid()} {there}"
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            told += ", as its file system is read-only"
            advice = "mount it to be written to, or name a folder elsewhere in [client] dir"
        return Finding("disk", told, advice, ExitCode.BAD_CONFIG, figures)
    advice = "make room: states, keys and run constants are kept there" if free < SHORT_BYTES else ""
    return Finding("disk", told, advice, ExitCode.BAD_CONFIG if free < FULL_BYTES else ExitCode.FINISHED, figures)


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = 0 <= soft < MIN_DESCRIPTORS
    advice = f"ulimit -n {MIN_DESCRIPTORS}, or LimitNOFILE={MIN_DESCRIPTORS} in its unit" if is_low else ""
    code = ExitCode.BAD_CONFIG if is_low else ExitCode.FINISHED
    return Finding("descriptors", f"{soft} may be open, up to {hard} if asked for", advice, code, {"limit": soft})


def _libzmq() -> Finding:
    told = f"{_dotted(libzmq_version())}, CURVE {'yes' if has_curve() else 'no'}"
    if libzmq_version()[:2] < OLDEST_LIBZMQ:
        advice = f"it is older than {_dotted(OLDEST_LIBZMQ)}: install a newer pyzmq"
        return Finding("libzmq", told, advice, ExitCode.BAD_CONFIG)
    if not has_curve():
        advice = "it cannot encrypt: install a pyzmq whose libzmq has CURVE, as its wheels do"
        return Finding("libzmq", told, advice, ExitCode.BAD_CONFIG)
    return Finding("libzmq", told)


def _torch() -> Finding | str:
    if _version("torch") == NOT_INSTALLED:
        return Finding("torch", NOT_INSTALLED, "pip install 'protoedge[train]', unless no run here trains a net")
    import torch

    told = f"{torch.__version__}, {torch.get_num_threads()} threads"
    if not torch.cuda.is_available():
        return f"{told}, no CUDA device"
    devices = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return f"{told}, CUDA {torch.version.cuda}: {devices}"


def _onnxruntime() -> str:
    if _version("onnxruntime") == NOT_INSTALLED:
        return NOT_INSTALLED
    import onnxruntime

    return f"{onnxruntime.__version__}, providers {', '.join(onnxruntime.get_available_providers())}"


def _sensors(sensors: Found) -> Finding:
    """Name what tells power; a sensor that is there and may not be read is worth a word."""
    names = ", ".join(sensor.name for sensor in sensors.sensors)
    advice = f"{sensors.advice}, if energy is to be measured" if sensors.advice else ""
    return Finding("sensors", names or f"none that tells power, so energy stays unknown: {sensors.reason}", advice)


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
