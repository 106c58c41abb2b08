"""What a client may say of its device in its hello; anything else that it says is left aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

PRINTABLE = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
"""What is told goes to terminals too."""

Text = Annotated[str, msgspec.Meta(max_length=200, pattern=PRINTABLE)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device; clients of one machine have the same `host`, and `energy_*` names its sensors or why it has none."""

    machine: Text = ""
    board: Text = ""
    cpu: Text = ""
    cores: Count = 0
    gpu: Text = ""
    memory_bytes: Count = 0
    has_unified_memory: bool = False
    system: Text = ""
    python: Text = ""
    protoedge: Text = ""
    numpy: Text = ""
    torch: Text = ""
    onnxruntime: Text = ""
    host: Text = ""
    energy_sources: Annotated[list[Text], msgspec.Meta(max_length=32)] = []
    energy_reason: Annotated[str, msgspec.Meta(max_length=1000, pattern=PRINTABLE)] = ""

    @property
    def title(self) -> str:
        """The board if it has a name, else the kind of machine."""
        return self.board or self.machine

    @property
    def programs(self) -> str:
        """The system and the versions of what runs on it."""
        versions = {name: getattr(self, name) for name in ("python", "protoedge", "numpy", "torch", "onnxruntime")}
        return ", ".join([self.system, *(f"{name} {version}" for name, version in versions.items() if version)])

    @property
    def sensors(self) -> str:
        """What its energy is measured by, or why it is not."""
        return ", ".join(self.energy_sources) or self.energy_reason


def read_device(told: Mapping[str, Any]) -> Device:
    """Return what a client says, an empty device if a part of it is not as it should be."""
    try:
        return msgspec.convert(dict(told), Device)
    except msgspec.ValidationError:
        return Device()


def data_index(told: Mapping[str, Any]) -> int | None:
    """Return which part of the run's data a client has, None if it has data of its own or does not say."""
    index = told.get("data_index")
    return index if isinstance(index, int) else None
