"""The registry: every folder beside this file is one method, found by name. Importing it leaves torch alone."""

from __future__ import annotations

import contextlib
import pkgutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from models.methods.api import Method
from models.methods.declaration import check_declared, check_halves
from models.methods.faults import MethodError, asked, expect
from models.registry import installed, resolve
from models.spec import ConfigError, RunSpec, Section, read_section


def names() -> list[str]:
    """Return the names of all methods, also of installed packages'."""
    return sorted({**installed("method"), **_registered()})


def find(name: str) -> Method:
    """Return a method by its name, or by `package.module:attribute` where it lives elsewhere.

    Raises:
        ConfigError: there is no such method, and the nearest name is in the text; or no run could be of it.
    """
    if (ours := _of_folder(name)) is not None:
        return ours
    has_torch = "torch" in sys.modules
    found = resolve("method", name, _registered())
    if "torch" in sys.modules and not has_torch:
        _brings_torch.add(name)
    if not isinstance(found, Method):
        raise ConfigError(f"method {name!r} must be a models.methods.api.Method, got {type(found).__name__}")
    check_declared(name, found)
    return found


def brings_torch(name: str) -> bool:
    """Say whether `find` has brought torch into this process by importing this method."""
    return name in _brings_torch


def default() -> Method:
    """Return the method of a run whose config names none."""
    (marked,) = [method for method in _registered().values() if method.is_default]
    return marked


def read_config(
    method: Method, table: Mapping[str, Any], others: Mapping[str, Collection[str]] | None = None
) -> Section:
    """Read the method's own settings, strictly; `others` are the keys of a run's other tables, by table.

    Raises:
        ConfigError: an unknown key or a value out of range.
    """
    return read_section(method.config, table, f"[method] of {method.name}", others)


def check(spec: RunSpec) -> None:
    """Refuse a run that its method's settings do not fit, or whose halves are nowhere; see `Method.check`.

    Raises:
        ConfigError: as the summary says, or the method's own check failed.
    """
    method = find(spec.method)
    check_halves(method)
    config = read_config(method, spec.method_config)
    with _refusing(method), asked("check"):
        method.check(spec, config)


def notes(spec: RunSpec) -> Sequence[str]:
    """Return what the method has to say of a run, in lines; see `Method.notes`.

    Raises:
        ConfigError: that failed.
    """
    method = find(spec.method)
    config = read_config(method, spec.method_config)
    with _refusing(method), asked("notes"):
        said: Sequence[Any] = expect(list | tuple, method.notes(spec, config), "a list of lines")
        return [expect(str, line, "lines of text") for line in said]


@contextlib.contextmanager
def _refusing(method: Method) -> Iterator[None]:
    """Have a fault of the method refused as one that is known before anything is started."""
    try:
        yield
    except MethodError as error:
        raise ConfigError(f"method {method.name}: {error}") from error


_brings_torch: set[str] = set()


@lru_cache
def _of_folder(name: str) -> Method | None:
    """Return the method of the folder of its own name: a megabyte less than to look through all of them."""
    is_ours = any(module.ispkg and module.name == name for module in pkgutil.iter_modules(__path__))
    methods = import_module(f"{__name__}.{name}").METHODS if is_ours else ()
    return next((method for method in methods if method.name == name), None)


@lru_cache(maxsize=1)
def _registered() -> dict[str, Method]:
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    packages = [import_module(f"{__name__}.{folder}") for folder in folders]
    return {method.name: method for package in packages for method in package.METHODS}
