"""PROTOCOL.md against the code: version, messages, fields, codecs, limits and refusal codes."""

import re
import typing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import wire
from coordinator.clients.device import Device
from edge_client.announcement import announcement
from edge_client.config import load
from edge_client.device import profile
from tests.wire.test_golden import SAMPLES, golden
from wire import limits
from wire.header import unpack_header
from wire.indices import encode_indices
from wire.messages import NETWORK, Evaluation, Message, RefusalCode, Vitals
from wire.payload import ELEMENT_CODECS
from wire.tensors import CODECS
from wire.version import PROTOCOL_VERSION

TEXT = (Path(wire.__file__).parent / "PROTOCOL.md").read_text()
KINDS = sorted(NETWORK.values(), key=lambda kind: kind.tag)

TYPES: dict[Any, str] = {
    int: "integer",
    float: "float",
    str: "text",
    bool: "truth value",
    tuple[int, int]: "pair of integers",
    list[str]: "list of text",
    list[int]: "list of integers",
    list[Evaluation]: "list of Evaluation",
    Vitals: "Vitals",
    dict[str, Any]: "map from text to any",
    dict[int, int]: "map from integer to integer",
}


def section(title: str) -> str:
    """Return the text below a heading, down to the next heading of any level."""
    found = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"expected one heading {title!r}, got {len(found)}"
    return str(found[0])


def rows(text: str, head: str) -> list[list[str]]:
    """Return the cells of the first table whose first column is called `head`, without the head itself."""
    table = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()] if table else []


def fields_of(kind: type[msgspec.Struct]) -> list[list[str]]:
    """Return name, type and default of each field as the document should give them."""
    hints = typing.get_type_hints(kind)
    found = []
    for field in msgspec.structs.fields(kind):
        default = "required" if field.required else f"`{default_of(field)}`"
        found.append([f"`{field.name}`", TYPES[hints[field.name]], default])
    return found


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return repr(field.default_factory())
    if isinstance(field.default, msgspec.Struct):
        return f"{type(field.default).__name__}()"
    return '""' if field.default == "" else repr(field.default)


def test_the_known_keys_of_a_device_are_those_that_are_told_and_those_that_are_read() -> None:
    known = re.findall("`([a-z_]+)`", section("Hello").partition("these keys are known")[2])
    config = load(None, ["client.id=a", "data.index=0"])
    told = announcement(config, profile()).keys() | {"energy_sources", "energy_reason"}
    assert told <= set(known)
    assert set(known) == {*Device.__struct_fields__, *announcement(config, {})}


def test_the_version_is_that_of_the_code() -> None:
    assert re.findall(r"^Version (\S+)$", TEXT, re.MULTILINE) == [str(PROTOCOL_VERSION)]


def test_every_message_stands_in_the_table_with_its_tag_and_payload() -> None:
    table = [[row[0], row[1], row[3]] for row in rows(section("Messages"), "tag")]
    assert table == [[str(kind.tag), f"`{kind.__name__}`", "yes" if kind.carries_payload else "no"] for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_has_its_fields_in_order_with_type_and_default(kind: type[Message]) -> None:
    assert [row[:3] for row in rows(section(kind.__name__), "field")] == fields_of(kind)


@pytest.mark.parametrize(("kind", "message"), [(Evaluation, "Update"), (Vitals, "Ping")])
def test_every_record_inside_a_message_has_its_fields(kind: type[msgspec.Struct], message: str) -> None:
    text = section(message).partition(f"**{kind.__name__}**")[2]
    assert [row[:3] for row in rows(text, "field")] == fields_of(kind)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_message_has_the_golden_header_as_its_example(name: str) -> None:
    assert f"    {unpack_header(bytes.fromhex(golden(name)[0]))}\n" in section(name)


def test_the_codec_table_is_that_of_the_code() -> None:
    expected = [
        [f"`{name}`", str(codec.number), str(codec.dtype.itemsize), "yes" if name in ELEMENT_CODECS else "no"]
        for name, codec in CODECS.items()
    ]
    assert [row[:4] for row in rows(section("Codecs"), "codec")] == expected


def test_the_refusal_codes_are_those_of_the_code() -> None:
    codes = [code for name, code in vars(RefusalCode).items() if name.isupper()]
    assert [row[0] for row in rows(section("Refusal codes"), "code")] == [f"`{code}`" for code in codes]


def test_the_first_codes_are_permanent_and_the_rest_are_not() -> None:
    permanent = [row[1] for row in rows(section("Refusal codes"), "code")]
    codes = [row[0].strip("`") for row in rows(section("Refusal codes"), "code")]
    assert permanent == ["yes" if code in codes[: codes.index("unknown_session")] else "no" for code in codes]


def test_the_example_of_an_index_set_is_what_is_sent() -> None:
    content = encode_indices(np.array([3, 4, 11, 17, 30]), 40)
    bits = "".join(f"{byte:08b}" for byte in content[3:])
    parts = re.search(r"The parts are (.*):", section("Index sets"))
    assert "positions 3, 4, 11, 17 and 30 of 40" in section("Index sets")
    assert f"    {content.hex()}\n" in section("Index sets")
    assert parts is not None
    assert re.sub(r"[^01]", "", parts[1]) == bits


def test_every_limit_is_stated() -> None:
    values = {name: value for name, value in vars(limits).items() if name.isupper()}
    stated = " ".join(row[1] for row in rows(section("Limits"), "what"))
    assert len(values) == len(rows(section("Limits"), "what"))
    assert [name for name, value in values.items() if f"{value:,}" not in stated] == []
