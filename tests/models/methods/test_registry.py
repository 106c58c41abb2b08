import dataclasses
from typing import Any

import pytest

from models import methods
from models.methods.api import Method
from models.spec import ConfigError


def test_every_folder_is_a_method_of_its_name() -> None:
    assert {"fedavg", "fedproto", "local_only"} <= set(methods.names())
    assert [methods.find(name).name for name in methods.names()] == methods.names()


def test_one_method_is_the_default() -> None:
    assert methods.default().name == "fedproto"
    assert [name for name in methods.names() if methods.find(name).is_default] == ["fedproto"]


def test_a_method_may_live_elsewhere() -> None:
    assert methods.find("tests.models.methods.test_registry:ELSEWHERE") is ELSEWHERE


ELSEWHERE: Method = methods.default()
NOT_A_METHOD = 3
WITHOUT_HEADLINE = dataclasses.replace(methods.default(), default_rule="nope", global_rules=())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fedprot", "unknown method 'fedprot'; did you mean 'fedproto'"),
        ("tests.models.methods.test_registry:NOT_A_METHOD", r"must be a models\.methods\.api\.Method, got int"),
        ("no_such_package:method", "cannot be imported"),
        (
            "tests.models.methods.test_registry:WITHOUT_HEADLINE",
            "default_rule = 'nope': expected one of its rules, head, local_prototype$",
        ),
    ],
)
def test_what_is_no_method_is_refused_in_words(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        methods.find(name)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"weightin": "counts"}, "fedproto: unknown key 'weightin'; did you mean 'weighting'"),
        ({"weighting": "size"}, "weighting = 'size': expected 'counts' or 'uniform'"),
        ({"regularizer_weight": -1.0}, "regularizer_weight = -1.0"),
    ],
)
def test_a_methods_own_settings_are_checked(table: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        methods.read_config(methods.find("fedproto"), table)


def test_settings_have_defaults() -> None:
    for name in methods.names():
        method = methods.find(name)
        assert methods.read_config(method, {}) == method.config()
