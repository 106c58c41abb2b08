"""What a client daemon and its trainer say to each other through their pipe, beside the network's own messages.

The daemon sends `Begin`, the run's missing constants as they came from the coordinator, then tasks as they came. The
trainer answers with `Ready`, `Progress` and `Update` as they will go out, or with `Lacks`, `Note`, `Waits`, `Failed`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wire.limits import shortened
from wire.messages import NETWORK, Message

MAX_CHARACTERS = 10_000
"""Of a text for people, so that a message can hold it in any language."""


class Begin(Message, frozen=True, array_like=True):
    """Load data and model for a run. `settings` are the device's own, as `ClientConfig` reads them.

    `constants` and `names` are those of the welcome.
    """

    tag: ClassVar[int] = 80
    run: int
    spec: dict[str, Any]
    constants: list[str]
    max_message_bytes: int
    settings: dict[str, Any]
    folder: str
    names: list[str] = []


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
    """The work at hand waits for something, or for nothing any more where the text is empty."""

    tag: ClassVar[int] = 83
    waits_for: str


class Lacks(Message, frozen=True, array_like=True):
    """Run constants that are not on the shelf, by their digests; those that the hello did not list are on their way."""

    tag: ClassVar[int] = 84
    digests: list[str]


COMMANDS: dict[int, type[Message]] = {**NETWORK, **{kind.tag: kind for kind in (Begin, Failed, Note, Waits, Lacks)}}
"""Every message of the trainer's pipe by its tag."""


def fit(text: str) -> str:
    """Return a text for people as a message holds it: not too long, and without what is no text in a file's name."""
    return shortened(text, MAX_CHARACTERS).encode("utf-8", "backslashreplace").decode()
