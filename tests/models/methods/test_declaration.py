"""Methods that no run could be of are refused where they are found, in words that name the part."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import methods
from models.methods.declaration import check_declared, check_halves
from models.spec import ConfigError, DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from tests.models.faulty_method import METHOD
from wire.payload import Record, class_ids, values

ONE = METHOD.exchanges[0]
OTHER: Any = dict


@dataclasses.dataclass(frozen=True)
class Undeclared(Record):
    """Its first field says nothing of what travels."""

    means: np.ndarray
    classes: np.ndarray = class_ids("C")


@dataclasses.dataclass(frozen=True)
class Defaulted(Record):
    """Its field has a default like any other."""

    means: Any = None


@dataclasses.dataclass(frozen=True)
class Sized(Record):
    """Its field names a size in place of a symbol."""

    means: np.ndarray = values("C", 50)  # type: ignore[arg-type]


class Undecorated(Undeclared):
    """Its own field would never travel."""

    counts: np.ndarray


def with_uplink(record: type[Record]) -> dict[str, Any]:
    return {"exchanges": (dataclasses.replace(ONE, uplink=record),)}


DECLARED = r"expected values\(...\), counts\(...\), class_ids\(...\), indices\(...\), scalar\(\) or digest_of\(...\)"


def test_ours_are_declared_well() -> None:
    for name in methods.names():
        check_declared(name, methods.find(name))
        check_halves(methods.find(name))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "a/b"}, "name = 'a/b': expected 1 to 64 letters"),
        ({"config": dict}, "config: expected a subclass of models.spec.Section, got <class 'dict'>"),
        ({"exchanges": ()}, r"exchanges: expected a tuple of at least one Exchange, got \(\)"),
        ({"exchanges": (("mean",),)}, "exchanges: expected each to be an Exchange, got tuple"),
        ({"exchanges": (ONE, ONE)}, "exchange 'mean': expected exchanges of different names"),
        ({"exchanges": (dataclasses.replace(ONE, name="evaluation"),)}, "exchange 'evaluation': expected another name"),
        ({"exchanges": (dataclasses.replace(ONE, uplink=OTHER),)}, "'mean': uplink: expected a subclass of wire"),
        (with_uplink(Undeclared), f"exchange 'mean': uplink: field 'means': {DECLARED}, got nothing$"),
        (with_uplink(Defaulted), f"field 'means': {DECLARED}, got None$"),
        (with_uplink(Sized), r"field 'means': expected symbols of sizes, such as 'C', got \('C', 50\)$"),
        (with_uplink(Undecorated), r"uplink: expected a dataclass, got Undecorated without @dataclass\(frozen=True\)$"),
        (with_uplink(Record), "uplink: expected a dataclass, got Record without"),
        ({"config": np.zeros((30, 30))}, r"config: [^\n]*$"),
        ({"global_rules": ("head",)}, "rule 'head': expected another name"),
        ({"global_rules": ("x",), "local_rules": ("x",)}, "rule 'x': expected rules of different names"),
        ({"global_rules": "mine"}, "global_rules: expected a tuple of names, got 'mine'"),
    ],
)
def test_a_method_of_which_no_run_could_be_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^method 'own': .*{told}"):
        check_declared("own", dataclasses.replace(METHOD, **changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"server": "no_such_module:S"}, "server = 'no_such_module:S': there is no module 'no_such_module'"),
        ({"client": "tests.models.faulty_method:Nope"}, "there is no Nope in 'tests.models.faulty_method'"),
        ({"server": "tests.models.faulty_method:MeanClient"}, "expected a subclass of models.methods.api.Server"),
        ({"client": "tests.models.faulty_method:MenClient"}, "no MenClient in .*; did you mean 'MeanClient'[?]"),
        ({"client": "faulty"}, "client = 'faulty': expected 'module:class'"),
    ],
)
def test_so_is_one_whose_halves_are_nowhere(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^method faulty: .*{told}"):
        check_halves(dataclasses.replace(METHOD, **changes))


def fails(spec: object, config: object) -> Any:
    """Fail as any code may."""
    raise KeyError("x")


def nothing(spec: object, config: object) -> Any:
    """Return nothing."""


CHECK_FAILS = dataclasses.replace(METHOD, check=fails)
NOTES_FAIL = dataclasses.replace(METHOD, notes=fails)
NO_NOTES = dataclasses.replace(METHOD, notes=nothing)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("CHECK_FAILS", r"method faulty: check: KeyError: 'x' \(test_declaration.py, line \d+\)"),
        ("NOTES_FAIL", r"method faulty: notes: KeyError: 'x' \(test_declaration.py, line \d+\)"),
        ("REFUSES", "not this"),
        ("NO_NOTES", "method faulty: notes: expected a list of lines, got NoneType"),
    ],
)
def test_a_check_or_notes_that_fail_are_told_as_such(name: str, told: str) -> None:
    sections = (DataConfig(), ModelConfig(), TrainingConfig(), EvaluationConfig(), WireConfig())
    spec = RunSpec("run", 0, 1, f"{__name__}:{name}", {}, ["a", "b"], *sections)
    ask = methods.notes if "NO" in name else methods.check
    with pytest.raises(ConfigError, match=f"^{told}$"):
        ask(spec)


def test_a_half_is_looked_for_without_being_imported() -> None:
    check_halves(dataclasses.replace(METHOD, server="this:d"))
    assert "this" not in sys.modules


def test_where_clients_work_their_module_must_be_there_too_and_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_server.py").write_text("class Server: ...")
    (tmp_path / "own_client.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    check_halves(dataclasses.replace(METHOD, server="own_server:Server", client="own_client:Own"), ("server", "client"))
    mistyped = dataclasses.replace(METHOD, server="own_server:Server", client="own_clint:Own")
    check_halves(mistyped)
    with pytest.raises(ConfigError) as raised:
        check_halves(mistyped, ("server", "client"))
    told = "there is no module 'own_clint'; did you mean 'own_client'?"
    assert str(raised.value) == f"method faulty: client = 'own_clint:Own': {told}"


def refuses(spec: object, config: object) -> Any:
    """Refuse every run, in two lines."""
    raise ConfigError("not\n  this")


REFUSES = dataclasses.replace(METHOD, check=refuses)
