"""A text stream that never raises unasked: what cannot be written is lost, and nothing is tried after a failure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TextIO


class Outlet:
    """Writes to a stream until that fails; letters that its encoding lacks are written as escapes."""

    def __init__(self, stream: TextIO | None, on_failed: Callable[[Exception], None] = lambda error: None) -> None:
        """Write to this stream, None being one that has failed; `on_failed` hears of a failure, and may raise it."""
        self._stream = self._given = stream
        self._on_failed = on_failed
        self.encoding = str(getattr(stream, "encoding", None) or "utf-8")

    def write(self, text: str) -> int:
        """Write, and return the length of the text as streams do."""
        if self._stream is not None:
            try:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
            except Exception as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        if self._stream is not None:
            try:
                self._stream.flush()
            except Exception as error:
                self._give_up(error)

    def isatty(self) -> bool:
        """Say whether a person may sit behind the stream."""
        try:
            return self._stream is not None and self._stream.isatty()
        except Exception:
            return False

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has, such as its descriptor."""
        return getattr(self._given, name)

    def close(self) -> None:
        """Close the stream and write no more."""
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream.close()
            self._stream = None

    def _give_up(self, error: Exception) -> None:
        stream, self._stream = self._stream, None
        if isinstance(error, OSError) and stream is not None:
            # Python flushes what is left when it exits, and would fail there with an exit code of its own.
            with contextlib.suppress(Exception):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
        self._on_failed(error)
