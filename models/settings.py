"""Settings as people write them: TOML files, `--set table.key=value` over them, names and addresses."""

from __future__ import annotations

import copy
import ipaddress
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.registry import installed
from models.spec import ConfigError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Tables = dict[str, dict[str, Any]]

MAX_DEPTH = 16
"""So many lists and tables may stand in each other."""

WHOLE_NUMBERS = range(-(2**63), 2**64)
"""Those that travel."""

NAME_FORM = "1 to 64 letters, digits or . _ -, all of them ASCII, the first a letter or digit"
ADDRESS_FORM = "host:port, such as 127.0.0.1:7071"

OF_A_RUN = "a run: `coordinator serve --config FILE` for that run alone, or `coordinator submit` where a service stands"
OF_A_SERVICE = "a standing coordinator: `coordinator serve --settings FILE`"
OF_A_CLIENT = "a client: `edge-client run --config FILE`"

OWNERS = {
    **dict.fromkeys(("run", "method", "round", "evaluation", "wire", "gate", "tasks"), OF_A_RUN),
    **dict.fromkeys(("privacy", "require", "report", "simulation"), OF_A_RUN),
    "service": OF_A_SERVICE,
    **dict.fromkeys(("client", "coordinator", "limits", "schedule"), OF_A_CLIENT),
}
"""Whose settings a table is one of; those that several have (`data`, `model`, `training`, `transport`) are left out."""

_DEPTH_EXPECTED = f"expected at most {MAX_DEPTH} lists and tables in each other, got more"
_NUMBER_EXPECTED = "expected whole numbers of 64 bits at most, got a larger one"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ADDRESS = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s/:\[\]]+)):(?P<port>[0-9]{1,5})")


def read_tables(path: Path | None, settings: Sequence[str]) -> Tables:
    """Return the tables of a file (none: no tables) with each `--set` laid over them, in order."""
    return apply_settings(read_toml(path) if path else {}, settings)


def read_toml(path: Path) -> Tables:
    """Read a file that consists of tables.

    Raises:
        ConfigError: the file cannot be read, is not TOML, has a key outside all tables, or values out of bounds.
    """
    try:
        content = _parsed(path.read_text(encoding="utf-8-sig"), str(path))  # editors put a byte order mark first
    except OSError as error:
        raise ConfigError(f"{path}: expected a readable TOML file, got {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: expected TOML, got {error}") from None
    _check_bounds(content, str(path))
    for name, table in content.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path.name}: {name} = {table!r}: expected every key to stand in a table such as [run]")
    return content


def apply_settings(tables: Mapping[str, Mapping[str, Any]], settings: Sequence[str]) -> Tables:
    """Return the tables with each `table.key=value` set: the value read as TOML, or taken as text where it is none.

    Raises:
        ConfigError: a setting has another form, or a value out of bounds.
    """
    merged: Tables = copy.deepcopy({name: dict(table) for name, table in tables.items()})
    for setting in settings:
        target, equals, text = setting.partition("=")
        *path, key = target.strip().split(".")
        table: Any = merged
        for name in path:
            table = table.setdefault(name, {}) if isinstance(table, dict) else None
        if not (equals and path and all(path) and key and isinstance(table, dict)):
            raise ConfigError(f"--set {setting}: expected table.key=value, such as --set run.num_rounds=3")
        where = f"--set {target[:80]}"
        table[key] = _read_value(text.strip(), where)
        _check_bounds(merged, where)
    return merged


def source_of(path: Path | None, settings: Sequence[str]) -> str:
    """Return what to call these settings in an error."""
    names = ([path.name] if path else []) + (["--set"] if settings else [])
    return " with ".join(names) or "the defaults"


def refusal(where: str, target: str, value: Any, expected: str) -> ConfigError:
    """Return the error for the value of `table.key`, in the form of `read_section`'s own."""
    table, _, key = target.partition(".")
    return ConfigError(f"{where} [{table}]: {key} = {value!r}: expected {expected}")


def check_owner(tables: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse a table that stands in another kind of file, and say which command reads that.

    Raises:
        ConfigError: as the name says; a table that no file has is left to `read_section`.
    """
    for table in tables:
        if table not in known and table in OWNERS:
            raise ConfigError(f"{where}: [{table}] belongs to {OWNERS[table]}; known here: {', '.join(known)}")


def check_part(target: str, kind: str, name: str, known: Collection[str], where: str) -> None:
    """Refuse the name of a net, data set or the like that neither we nor a package has and is no `module:attribute`."""
    if name in known or ":" in name or name in installed(kind):
        return
    table, _, key = target.partition(".")
    raise ConfigError(f"{where} [{table}]: unknown {key} {name!r}; {nearest(name, [*known, *installed(kind)])}")


def is_plain_name(text: str) -> bool:
    """Tell whether a text has `NAME_FORM`, and so is safe as the name of a file."""
    return _PLAIN_NAME.fullmatch(text) is not None


def split_address(address: str) -> tuple[str, int] | None:
    """Return host (an IPv6 one without its brackets) and port of an address that has `ADDRESS_FORM`, else nothing."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts["port"]) > 65535:
        return None
    return parts["ipv6"] or parts["host"], int(parts["port"])


def is_loopback(host: str) -> bool:
    """Tell whether a host, as `split_address` returns it, is this machine under an address that no other can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        tomllib.TOMLDecodeError: it is none.
        ConfigError: it is more than can be parsed.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ConfigError(f"{where}: {_DEPTH_EXPECTED}") from None
    except ValueError:  # Python's own bound for the digits of a number
        raise ConfigError(f"{where}: {_NUMBER_EXPECTED}") from None


def _check_bounds(tables: Mapping[str, Any], where: str) -> None:
    """Refuse what nobody means, and later steps could not show or send."""
    values: list[Any] = [tables]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(value, int) and value not in WHOLE_NUMBERS for value in values):
            raise ConfigError(f"{where}: {_NUMBER_EXPECTED}")
        inner = [
            value.values() if isinstance(value, dict) else value for value in values if isinstance(value, dict | list)
        ]
        values = [value for each in inner for value in each]
    if values:
        raise ConfigError(f"{where}: {_DEPTH_EXPECTED}")


def _read_value(text: str, where: str) -> Any:
    """Read one TOML value; dates have no use here, so one stays text."""
    try:
        content = _parsed(f"value = {text}", where)
    except tomllib.TOMLDecodeError:
        return text
    value = content["value"]
    return value if len(content) == 1 and isinstance(value, str | int | float | list | dict) else text
