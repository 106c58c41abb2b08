"""Mistakes in a method's own code, in words for its author: who was asked, for what, and where it went wrong."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

from models.spec import ConfigError, in_one_line
from models.steps import AbandonedError, TrainingDivergedError
from wire.payload import EncodeError, RecordError, UnfitArrayError

_ROOT = Path(__file__).parents[2]

_OURS = [_ROOT / package for package in ("coordinator", "edge_client", "models", "wire")]

_PYTHON = Path(os.__file__).parent

_LIBRARIES = ("torch", "numpy")

_MAX_SHOWN = 80
"""Characters of a value that came in place of what was asked for."""


class MethodError(Exception):
    """A method's own code failed, or returned what nobody can go on with; the text is one line."""


_Kinds = tuple[type[BaseException], ...]

_TOLD_ELSEWHERE: _Kinds = (MethodError, UnfitArrayError, ConfigError, TrainingDivergedError, AbandonedError)


def made_by(maker: str) -> _Maker:
    """Have the text of a fault of a method, or of what it made and cannot travel, begin with where it comes from."""
    return _Maker(maker)


class _Maker:
    """Where something comes from; a class, as there are many in each task and most go well."""

    def __init__(self, maker: str) -> None:
        self._maker = maker

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MethodError | EncodeError | RecordError):
            raise _one_line(type(error)(f"{self._maker}: {error}")) from error.__cause__


def asked(for_what: str, *but: type[BaseException]) -> _Question:
    """Have whatever a method's own code raises, `SystemExit` too, told in one line that begins with the question.

    Raises:
        MethodError: the text names the error, and the method's file and line where there is one.
        ConfigError, TrainingDivergedError, AbandonedError, UnfitArrayError: as the code raised them, in one line; so
            are those of `but`, as they are.
    """
    return _Question(for_what, but)


class _Question:
    """What a method is asked for; a class for the same reason."""

    def __init__(self, for_what: str, but: _Kinds) -> None:
        self._for_what = for_what
        self._but = but

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, self._but):
            return
        with made_by(self._for_what):
            if isinstance(error, _TOLD_ELSEWHERE):
                raise _one_line(error)
            if isinstance(error, RecordError):
                raise MethodError(f"{in_one_line(str(error))}{_place(error)}") from error
            if isinstance(error, Exception | SystemExit):
                raise MethodError(f"{named(error)}{_place(error)}") from error


def named(error: BaseException) -> str:
    """Return an error in one line, behind the name of its type."""
    told = in_one_line(str(error))
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def shown(value: Any) -> str:
    """Return in a few words of one line what came: of an array its shape, as its entries tell nobody anything."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of shape {tuple(shape)}"
    return in_one_line(f"{value!r:.{_MAX_SHOWN}}")


def _one_line(error: BaseException) -> BaseException:
    """Return an error, or one like it whose text is one line."""
    told = str(error)
    return error if told.isprintable() else type(error)(in_one_line(told))


def expect(kind: type | UnionType, got: Any, what: str) -> Any:
    """Return what a method returned, if it is of this kind.

    Raises:
        MethodError: it is not.
    """
    if not isinstance(got, kind):
        raise MethodError(f"expected {what}, got {type(got).__name__}")
    return got


def arrays_in(got: Any) -> Mapping[str, np.ndarray]:
    """Return what a method returned, if it is numpy arrays by name.

    Raises:
        MethodError: it is not.
    """
    arrays: Mapping[str, Any] = expect(Mapping, got, "numpy arrays by name")
    for name, array in arrays.items():
        expect(np.ndarray, array, f"a numpy array as {name!r}")
    return arrays


def _place(error: BaseException) -> str:
    """Return the innermost file and line that are the method's own, if there are any."""
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [f" ({file.name}, line {line})" for file, line in places if _is_own(file)]
    return own[-1] if own else ""


def _is_own(file: Path) -> bool:
    """Say whether a file of code is neither ours nor of Python or the libraries that methods compute with."""
    if str(file).startswith("<") or any(file.is_relative_to(folder) for folder in _OURS):
        return False
    if "site-packages" in file.parts:
        return file.parts[file.parts.index("site-packages") + 1] not in _LIBRARIES
    return not file.is_relative_to(_PYTHON)
