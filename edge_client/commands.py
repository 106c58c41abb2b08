"""What a client daemon and its trainer say to each other through their pipe, beside the network's own messages.

The daemon sends `Begin`, the run's missing constants as they came from the coordinator, then tasks as they came. The
trainer answers with `Ready`, `Progress` and `Update` as they will go out, or with `Note`, `Waits` and `Failed`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wire.messages import NETWORK, Message


class Begin(Message, frozen=True, array_like=True):
    """Load data and model for a run. `settings` are the device's own, as `ClientConfig` reads them."""

    tag: ClassVar[int] = 80
    run: int
    spec: dict[str, Any]
    constants: list[str]
    max_message_bytes: int
    settings: dict[str, Any]
    folder: str


class Failed(Message, frozen=True, array_like=True):
    """The trainer cannot take part; `code` is what the client exits with."""

    tag: ClassVar[int] = 81
    reason: str
    code: int


class Note(Message, frozen=True, array_like=True):
    """Something that people should know, such as samples that could not be used."""

    tag: ClassVar[int] = 82
    text: str


class Waits(Message, frozen=True, array_like=True):
    """The task at hand waits for something, or for nothing any more where the text is empty."""

    tag: ClassVar[int] = 83
    waits_for: str


COMMANDS: dict[int, type[Message]] = {**NETWORK, **{kind.tag: kind for kind in (Begin, Failed, Note, Waits)}}
"""Every message of the trainer's pipe by its tag."""
