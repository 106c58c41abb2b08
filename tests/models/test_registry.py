import pytest

from models.registry import installed, is_here, resolve
from models.spec import ConfigError


def test_a_known_name_gives_its_target_and_a_text_is_imported() -> None:
    assert resolve("net", "a", {"a": 1}) == 1
    assert resolve("net", "a", {"a": "math:pi"}) == pytest.approx(3.14159, abs=1e-4)


def test_a_part_that_lives_elsewhere_is_imported() -> None:
    assert resolve("net", "math:tau", {}) == pytest.approx(6.28318, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"), [("a", True), ("math:no_such", True), ("no_such.module:x", False), (":x", False)]
)
def test_a_part_is_here_if_its_package_can_be_found(name: str, expected: bool) -> None:
    assert is_here(name) == expected


@pytest.mark.parametrize("name", ["no_such_module:x", "math:no_such", ":x", "math:"])
def test_what_cannot_be_imported_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        resolve("net", name, {})


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown net 'cnm'; did you mean 'cnn'"):
        resolve("net", "cnm", {"cnn": 1, "mlp": 2})
    with pytest.raises(ConfigError, match="known: cnn, mlp"):
        resolve("net", "xyz", {"cnn": 1, "mlp": 2})


def test_nothing_is_installed_under_an_unused_group() -> None:
    assert installed("no_such_group") == {}
