"""Methods that no run could be of are refused where they are found, in words that name the part."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest

from models import methods
from models.methods.declaration import check_declared, check_halves
from models.spec import ConfigError, DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig
from tests.models.faulty_method import METHOD

ONE = METHOD.exchanges[0]
OTHER: Any = dict


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
        ("NO_NOTES", "method faulty: notes: expected a list of lines, got NoneType"),
    ],
)
def test_a_check_or_notes_that_fail_are_told_as_such(name: str, told: str) -> None:
    sections = (DataConfig(), ModelConfig(), TrainingConfig(), EvaluationConfig(), WireConfig())
    spec = RunSpec("run", 0, 1, f"{__name__}:{name}", {}, ["a", "b"], *sections)
    ask = methods.check if name == "CHECK_FAILS" else methods.notes
    with pytest.raises(ConfigError, match=f"^{told}$"):
        ask(spec)


def test_a_half_is_looked_for_without_being_imported() -> None:
    check_halves(dataclasses.replace(METHOD, server="this:Server"))
    assert "this" not in sys.modules
