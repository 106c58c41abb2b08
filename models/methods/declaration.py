"""Whether a method that lives elsewhere is declared as the runtime needs it; looked at once, where it is found."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import sys
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from models.methods.api import LOCAL_RULES, Client, Method, Server
from models.methods.exchange import EVALUATION, Exchange
from models.settings import NAME_FORM, is_plain_name
from models.spec import ConfigError, Section, did_you_mean, in_one_line
from wire.payload import Record

DECLARATIONS = "values(...), counts(...), class_ids(...), indices(...), scalar() or digest_of(...)"

RESERVED_RULES = (*LOCAL_RULES, "auto")


def check_declared(name: str, method: Method) -> None:
    """Refuse a method, known by this name, of which no run could be.

    Raises:
        ConfigError: the text names the part, what was expected and what came.
    """
    for told in _faults(method):
        raise ConfigError(f"method {name!r}: {in_one_line(told)}")


def check_halves(method: Method, here: Collection[str] = ("server",)) -> None:
    """Refuse a method whose halves are nowhere, as far as that is known without importing them: they may need torch.

    The client's modules need not be here, where no client may ever be; those of the parts in `here` must.

    Raises:
        ConfigError: the text names the half, and the nearest name.
    """
    kinds = {"server": Server, "client": Client, "client_numpy": object, "net": object}
    for half, kind in kinds.items():
        target = getattr(method, half)
        if target or half in ("server", "client"):
            told = _fault_of_half(target, kind, half in here, method)
            if told:
                raise ConfigError(f"method {method.name}: {half} = {target!r}: {told}")


def _faults(method: Any) -> Iterator[str]:
    if not isinstance(method.name, str) or not is_plain_name(method.name):
        yield f"name = {method.name!r}: expected {NAME_FORM}, as runs are named after it"
    if not (isinstance(method.config, type) and issubclass(method.config, Section)):
        yield f"config: expected a subclass of models.spec.Section, got {method.config!r}"
    yield from _faults_of_exchanges(method.exchanges)
    for part in ("local_rules", "global_rules"):
        rules = getattr(method, part)
        if not isinstance(rules, tuple) or not all(isinstance(rule, str) for rule in rules):
            yield f"{part}: expected a tuple of names, got {rules!r}"
    own = (*method.local_rules, *method.global_rules)
    for rule in own:
        if rule in RESERVED_RULES:
            yield f"rule {rule!r}: expected another name, as there is one of that in every run"
        if own.count(rule) > 1:
            yield f"rule {rule!r}: expected rules of different names"
    if method.default_rule and method.default_rule not in method.rules:
        expected = f"one of its rules, {', '.join(method.rules)}" if method.rules else "'', as it has no rules"
        yield f"default_rule = {method.default_rule!r}: expected {expected}"


def _faults_of_exchanges(exchanges: Any) -> Iterator[str]:
    if not isinstance(exchanges, tuple) or not exchanges:
        yield f"exchanges: expected a tuple of at least one Exchange, got {exchanges!r}"
    for exchange in exchanges:
        if not isinstance(exchange, Exchange):
            yield f"exchanges: expected each to be an Exchange, got {type(exchange).__name__}"
    names = [exchange.name for exchange in exchanges]
    for exchange in exchanges:
        where = f"exchange {exchange.name!r}"
        if exchange.name == EVALUATION:
            yield f"{where}: expected another name, as the one after the last round has that"
        if names.count(exchange.name) > 1:
            yield f"{where}: expected exchanges of different names"
        for part in ("downlink", "uplink"):
            kind = getattr(exchange, part)
            if not (isinstance(kind, type) and issubclass(kind, Record)):
                yield f"{where}: {part}: expected a subclass of wire.payload.Record, got {kind!r}"
            for told in _faults_of_record(kind):
                yield f"{where}: {part}: {told}"
            if not callable(getattr(exchange, f"{part}_dims")):
                yield f"{where}: {part}_dims: expected a function of Facts, got {getattr(exchange, f'{part}_dims')!r}"


def _faults_of_record(record: type[Record]) -> Iterator[str]:
    undecorated = inspect.get_annotations(record) and "__dataclass_fields__" not in vars(record)
    if undecorated or not dataclasses.is_dataclass(record):
        yield f"expected a dataclass, got {record.__name__} without @dataclass(frozen=True)"
    for field in dataclasses.fields(record):
        if "kind" not in field.metadata:
            came = "nothing" if field.default is dataclasses.MISSING else repr(field.default)
            yield f"field {field.name!r}: expected {DECLARATIONS}, got {came}"
        symbols = (*field.metadata.get("dims", ()), field.metadata.get("of", ""))
        if not all(isinstance(symbol, str) for symbol in symbols):
            yield f"field {field.name!r}: expected symbols of sizes, such as 'C', got {symbols[:-1]}"


def _modules_of(method: Method) -> set[str]:
    """Return where the parts of a method are said to be, for who mistypes one."""
    targets = (method.server, method.client, method.client_numpy, method.net)
    modules = {target.partition(":")[0] for target in targets if isinstance(target, str)}
    return {module for module in {*modules, method.config.__module__} if module and _is_found(module)}


def _fault_of_half(target: object, kind: type, must_be_here: bool, method: Method) -> str:
    """Say what is wrong with a `module:class` of a method, "" if nothing is."""
    module, _, name = target.partition(":") if isinstance(target, str) else ("", "", "")
    if not module or not name:
        return "expected 'module:class'"
    if must_be_here and not _is_found(module):
        return _with_hint(f"there is no module {module!r}", did_you_mean(module, _beside(_modules_of(method))))
    if (loaded := sys.modules.get(module)) is None:
        return ""
    if not hasattr(loaded, name):
        bound = [one for one, what in vars(loaded).items() if callable(what)]
        return _with_hint(f"there is no {name} in {module!r}", did_you_mean(name, bound))
    made = getattr(loaded, name)
    is_other = isinstance(made, type) and not issubclass(made, kind)
    return f"expected a subclass of models.methods.api.{kind.__name__}" if is_other else ""


def _beside(modules: Collection[str]) -> set[str]:
    """Return these modules and those that lie beside them."""
    found = set(modules)
    for module in modules:
        package, spec = module.rpartition(".")[0], find_spec(module)
        folder = [str(Path(spec.origin).parent)] if spec is not None and spec.origin else []
        found |= {f"{package}.{each.name}" if package else each.name for each in pkgutil.iter_modules(folder)}
    return found


def _with_hint(told: str, hint: str) -> str:
    return f"{told}; {hint}" if hint else told


def _is_found(module: str) -> bool:
    try:
        return module in sys.modules or find_spec(module) is not None
    except (Exception, SystemExit):  # whatever a package does on import that the module lies in
        return False
