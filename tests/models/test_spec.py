import pytest

from models.spec import ConfigError, ModelConfig, read_section


def test_all_clients_have_one_net_unless_there_are_several() -> None:
    assert [ModelConfig(name="mlp").name_for(index) for index in (0, 7, None)] == ["mlp"] * 3


def test_clients_take_the_nets_in_turn() -> None:
    model = ModelConfig(name="unused", names=["mlp", "cnn", "resnet8"])
    assert [model.name_for(index) for index in range(5)] == ["mlp", "cnn", "resnet8", "mlp", "cnn"]


def test_a_client_without_an_index_can_have_the_only_net_but_no_turn() -> None:
    assert ModelConfig(names=["mlp", "mlp"]).name_for(None) == "mlp"
    with pytest.raises(ConfigError, match=r"\[model\] names = \['mlp', 'cnn'\]: a client without an index"):
        ModelConfig(names=["mlp", "cnn"]).name_for(None)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("names", "cnn", "expected `array`, got `str`"),
        ("names", [1], r"expected `str`, got `int`"),
        ("norm", "layer", "expected 'batch' or 'group'"),
        ("vocab_size", 1, "expected `int` >= 2"),
    ],
)
def test_what_cannot_be_a_model_is_refused(key: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"run\.toml \[model\]: {key} = .*{expected}"):
        read_section(ModelConfig, {key: value}, "run.toml [model]")
