"""The method table is derived from the registry."""

import json

import pytest

from coordinator.method_table import COLUMNS, describe_methods, format_methods
from models import methods


def test_every_method_has_a_row() -> None:
    rows = describe_methods()
    assert [row["name"] for row in rows] == methods.names()
    assert [row["name"] for row in rows if row["default"]] == [methods.default().name]
    for row in rows:
        assert row["headline_rule"] in row["rules"]


def test_the_formulas_are_those_of_byte_prediction() -> None:
    rows = {row["name"]: row for row in describe_methods()}
    assert (rows["fedproto"]["up"], rows["fedproto"]["down"]) == ({"prototypes": "K_i·d"}, {"prototypes": "A·d"})
    assert (rows["fedavg"]["up"], rows["fedavg"]["down"]) == ({"average": "P + F"}, {"average": "P + F"})
    assert (rows["local_only"]["up"], rows["local_only"]["down"]) == ({"train": "0"}, {"train": "0"})


def test_the_same_rows_in_each_style() -> None:
    assert json.loads(format_methods("json")) == describe_methods()
    markdown = format_methods("markdown").splitlines()
    assert markdown[0] == f"| {' | '.join(COLUMNS)} |"
    assert markdown[1].count("---") == len(COLUMNS)
    assert len(markdown) == 2 + len(methods.names())
    text = format_methods("text").splitlines()
    assert [line.split()[0] for line in text[1 : 1 + len(methods.names())]] == methods.names()


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_the_default_method_is_marked(style: str) -> None:
    assert format_methods(style).count(f"{methods.default().name} (default)") == 1
