"""What a run requires of its clients' devices, against what those have said of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator.clients.device import data_index
from coordinator.config import RunConfig

MEBIBYTE = 1 << 20


def unmet(config: RunConfig, device: Mapping[str, Any]) -> str:
    """Return the first requirement of a run that a device does not meet, "" if it meets all.

    A device that takes a part of the run's own data needs the index of one.
    """
    return next(_unmet(config, device), "")


def count_unmet(config: RunConfig, devices: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return on how many of the devices each requirement fails; each is counted once."""
    return Counter(fault for device in devices if (fault := unmet(config, device)))


def _unmet(config: RunConfig, device: Mapping[str, Any]) -> Iterator[str]:
    wanted = config.require
    for key, needed in (("tags", wanted.tags), ("classes", wanted.classes)):
        if missing := [name for name in needed if name not in _texts(device.get(key))]:
            yield f"{key} {', '.join(missing)}"
    if _number(device.get("memory_bytes")) < wanted.min_memory_mib * MEBIBYTE:
        yield f"min_memory_mib = {wanted.min_memory_mib}"
    if wanted.cuda and device.get("cuda") is not True:
        yield "cuda"
    if wanted.source and device.get("source") != wanted.source:
        yield f"source = {wanted.source!r}"
    index = data_index(device)
    if index is not None and not 0 <= index < config.data.num_clients:
        yield f"a [data] index below num_clients = {config.data.num_clients}"


def _texts(told: Any) -> list[Any]:
    return told if isinstance(told, list) else []


def _number(told: Any) -> float:
    return told if isinstance(told, int | float) else 0
