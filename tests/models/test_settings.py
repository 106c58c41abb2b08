"""Reading TOML tables, laying `--set` over them, and the forms of names and addresses."""

from pathlib import Path
from typing import Any

import pytest

from models.settings import (
    apply_settings,
    check_part,
    is_plain_name,
    read_tables,
    read_toml,
    source_of,
    split_address,
)
from models.spec import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ('"3"', "3"),
        ('["a", "b"]', ["a", "b"]),
        ("f16", "f16"),
        ("", ""),
        ("a=b", "a=b"),
        (" runs/today ", "runs/today"),
        ("2024-01-31", "2024-01-31"),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_setting_is_read_as_toml_or_taken_as_text(text: str, value: Any) -> None:
    assert apply_settings({}, [f"table.key={text}"]) == {"table": {"key": value}}


def test_settings_lie_over_the_tables_and_the_last_one_wins() -> None:
    tables = {"run": {"seed": 1, "name": "a"}}
    assert apply_settings(tables, ["run.seed=2", "run.seed=3", "new.key=x"]) == {
        "run": {"seed": 3, "name": "a"},
        "new": {"key": "x"},
    }
    assert tables == {"run": {"seed": 1, "name": "a"}}


@pytest.mark.parametrize("setting", ["round.fraction", "fraction=1", "=1", ".x=1", "round.=1", ""])
def test_a_setting_of_another_form_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_settings({}, [setting])
    assert str(caught.value) == f"--set {setting}: expected table.key=value, such as --set run.num_rounds=3"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b'\xef\xbb\xbf[run]\r\nname = "\xc3\xa9"\r\n')
    assert read_toml(path) == {"run": {"name": "\u00e9"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[run\n", "expected TOML, got"),
        (b"\xff\xfe", "expected TOML, got 'utf-8' codec"),
        (b"seed = 1\n", "seed = 1: expected every key to stand in a table such as [run]"),
        (b"[[run]]\nseed = 1\n", "run = [{'seed': 1}]: expected every key to stand in a table"),
    ],
)
def test_a_file_that_is_no_tables_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert "run.toml: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


TOO_MUCH = {
    "9" * 5000: "expected whole numbers of 64 bits at most, got a larger one",
    "0x" + "f" * 5000: "expected whole numbers of 64 bits at most, got a larger one",
    str(2**64): "expected whole numbers of 64 bits at most, got a larger one",
    "[" * 3000 + "]" * 3000: "expected at most 16 lists and tables in each other, got more",
    "[" * 17 + "]" * 17: "expected at most 16 lists and tables in each other, got more",
    "{a = " * 30 + "1" + "}" * 30: "expected at most 16 lists and tables in each other, got more",
}


@pytest.mark.parametrize("value", TOO_MUCH, ids=lambda value: value[:20])
def test_numbers_and_lists_that_nobody_means_are_one_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"[run]\nseed = {value}\n")
    with pytest.raises(ConfigError) as of_file:
        read_toml(path)
    assert str(of_file.value) == f"{path}: {TOO_MUCH[value]}"
    with pytest.raises(ConfigError) as of_setting:
        apply_settings({}, [f"run.seed={value}"])
    assert str(of_setting.value) == f"--set run.seed: {TOO_MUCH[value]}"


def test_what_is_no_toml_however_deep_is_text_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[data]\nmean = " + "[" * 3000)
    with pytest.raises(ConfigError, match=r"run\.toml: expected "):
        read_toml(path)
    with pytest.raises(ConfigError, match=r"--set data\.mean: expected at most 16 lists"):
        apply_settings({}, ["data.mean=" + "[" * 3000])


def test_the_largest_numbers_and_tables_in_each_other_are_taken() -> None:
    assert apply_settings({}, [f"run.seed={2**64 - 1}"]) == {"run": {"seed": 2**64 - 1}}
    with pytest.raises(ConfigError, match=r"--set a\.a\..*: expected at most 16 lists and tables in each other"):
        apply_settings({}, ["a." * 3000 + "b=1"])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: expected a readable TOML file, got No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="expected a readable TOML file, got Is a directory"):
        read_toml(tmp_path)


def test_without_a_file_only_the_settings_count() -> None:
    assert read_tables(None, ["run.seed=1"]) == {"run": {"seed": 1}}


def test_an_error_names_where_the_settings_came_from() -> None:
    path = Path("somewhere/run.toml")
    assert source_of(path, []) == "run.toml"
    assert source_of(path, ["a.b=1"]) == "run.toml with --set"
    assert source_of(None, ["a.b=1"]) == "--set"
    assert source_of(None, []) == "the defaults"


def test_a_part_is_known_or_a_reference() -> None:
    check_part("model.name", "net", "cnn", ["cnn", "mlp"], "run.toml")
    check_part("model.name", "net", "package.module:Net", ["cnn", "mlp"], "run.toml")
    with pytest.raises(ConfigError) as caught:
        check_part("model.name", "net", "cmn", ["cnn", "mlp"], "run.toml")
    assert str(caught.value) == "run.toml [model]: unknown name 'cmn'; did you mean 'cnn'?"


@pytest.mark.parametrize("name", ["a", "client-00", "A.b_c-9", "x" * 64])
def test_plain_names(name: str) -> None:
    assert is_plain_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "-x", "a/b", "a\\b", "a b", "a\n", "ä", "x" * 65, "a\0"])
def test_names_that_are_not_safe_as_files(name: str) -> None:
    assert not is_plain_name(name)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:7071", ("127.0.0.1", 7071)),
        ("server.example:0", ("server.example", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        "7071",
        ":7071",
        "host:",
        "host:port",
        "host:65536",
        "host:-1",
        "::1:7071",
        "tcp://host:1",
        "a b:1",
        "[]:1",
        "h:1\n",
    ],
)
def test_what_is_no_address(address: str) -> None:
    assert split_address(address) is None
