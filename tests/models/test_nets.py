import inspect
import re
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch

from models import nets, seeding
from models.nets.net import Net, feature_batches
from models.registry import installed, resolve
from models.spec import ConfigError, ModelConfig


@pytest.mark.parametrize("name", ["mlp", "cnn", "fedpa-cnn"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 1, 1), (2, 1, 9), (3, 5, 3), (1, 65, 64)])
def test_a_net_takes_any_image(name: str, shape: tuple[int, int, int]) -> None:
    net = nets.build_net(name, shape, feature_dim=7, num_classes=3)
    x = torch.rand(2, *shape)
    assert net.features(x).shape == (2, 7)
    assert torch.equal(net.eval()(x), net.head(net.features(x)))
    assert (net.head.in_features, net.head.out_features) == (7, 3)


@pytest.mark.parametrize(("name", "is_signed"), [("mlp", False), ("cnn", False), ("fedpa-cnn", True)])
def test_only_fedpas_net_has_negative_features(name: str, is_signed: bool) -> None:
    features = nets.build_net(name, (1, 8, 8), 7, 3).features(torch.rand(20, 1, 8, 8))
    assert bool((features < 0).any()) == is_signed


@pytest.mark.parametrize("name", [name for name in nets.NETS if name not in ("mlp", "fasttext")])
def test_vectors_are_refused_by_nets_for_images(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"net '{name}': expected images \[C, H, W\], got samples of shape \[5\]"):
        nets.build_net(name, (5,), 4, 3)


def test_vectors_are_taken_by_the_mlp() -> None:
    assert nets.build_net("mlp", (5,), 4, 3)(torch.rand(2, 5)).shape == (2, 3)


@pytest.mark.parametrize(("num_classes", "expected"), [(10, 26_434), (26, 26_962)])
def test_fedpas_net_has_its_papers_size(num_classes: int, expected: int) -> None:
    net = nets.build_net("fedpa-cnn", (1, 28, 28), 32, num_classes)
    assert (nets.count_parameters(net), nets.count_buffers(net)) == (expected, 44)


def test_a_text_is_the_mean_of_its_tokens() -> None:
    net = nets.build_net("fasttext", (4,), 6, 3, dtype="int64", vocab_size=10)
    embeddings_VD = dict(net.named_parameters())["embedding.weight"]
    features = net.features(torch.tensor([[2, 5, 0, 0], [0, 0, 0, 0]]))
    assert torch.allclose(features[0], (embeddings_VD[2] + embeddings_VD[5]) / 2)
    assert (features[1] == 0).all()


def test_tokens_beyond_the_vocabulary_share_the_embeddings_of_others_but_never_padding() -> None:
    net = nets.build_net("fasttext", (1,), 6, 3, dtype="int64", vocab_size=10)
    features = net.features(torch.arange(28)[:, None])
    assert torch.equal(features[1:10], features[10:19])
    assert torch.equal(features[1:10], features[19:])
    assert len(features[1:10].unique(dim=0)) == 9


def test_padding_learns_nothing() -> None:
    net = nets.build_net("fasttext", (3,), 6, 3, dtype="int64")
    net(torch.tensor([[1, 0, 0], [2, 3, 0]])).sum().backward()
    gradient = dict(net.named_parameters())["embedding.weight"].grad
    assert gradient is not None
    assert gradient.any(dim=1).nonzero().flatten().tolist() == [1, 2, 3]


def test_images_are_refused_by_the_net_for_texts() -> None:
    with pytest.raises(
        ConfigError, match=r"net 'fasttext': expected token ids \[L\], got samples of shape \[1, 8, 8\]"
    ):
        nets.build_net("fasttext", (1, 8, 8), 4, 3)


@pytest.mark.parametrize(("name", "dtype"), [("fasttext", "float32"), ("mlp", "int64")])
def test_samples_of_another_type_are_refused(name: str, dtype: str) -> None:
    with pytest.raises(ConfigError, match=rf"net '{name}' cannot take samples of shape \[5\] and type {dtype}: "):
        nets.build_net(name, (5,), 4, 3, dtype=dtype)


def test_an_unknown_net_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown net 'cn'; did you mean 'cnn'"):
        nets.build_net("cn", (1, 8, 8), 4, 3)


class Own(torch.nn.Module):
    """A net from elsewhere; `kept` is a setting that it takes."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int, kept: str = "default") -> None:
        super().__init__()
        self.kept = kept
        self.body = torch.nn.Linear(input_shape[0], feature_dim)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(feature_dim, num_classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.drop(self.body(x))
        return made


def own(name: str, **settings: Any) -> Any:
    return nets.build_net(f"tests.models.test_nets:{name}", (5,), 4, 3, **settings)


def test_a_net_from_elsewhere_needs_no_parent_of_ours() -> None:
    net = own("Own")
    assert (type(net), type(net).__base__) == (Own, torch.nn.Module)
    assert all(module.training for module in net.modules())
    nets.load_flat(net, nets.flatten_parameters(net), nets.flatten_buffers(net))


def test_a_factory_gets_the_settings_that_it_has_a_parameter_for() -> None:
    assert own("Own", kept="told", other="unwanted").kept == "told"
    assert own("Own", other="unwanted").kept == "default"


def test_trying_a_net_draws_nothing() -> None:
    torch.manual_seed(0)
    built = own("Own")
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(Own((5,), 4, 3).body.weight, built.body.weight)
    assert torch.equal(torch.rand(1), after)


def test_a_net_of_an_installed_package_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("theirs", "tests.models.test_nets:Own", "protoedge.nets")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == entry.group else [])
    installed.cache_clear()
    try:
        assert "theirs" in nets.net_names()
        assert isinstance(nets.build_net("theirs", (5,), 4, 3), Own)
    finally:
        installed.cache_clear()


def not_a_net(*arguments: object) -> tuple[object, ...]:
    return arguments


def headless(input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Own:
    net = Own(input_shape, feature_dim, num_classes)
    del net.head
    return net


def featureless(*arguments: object) -> torch.nn.Module:
    return torch.nn.Linear(5, 3)


def with_another_head(input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Own:
    return Own(input_shape, feature_dim + 1, num_classes)


def with_other_features(input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Own:
    net = Own(input_shape, feature_dim, num_classes)
    net.body = torch.nn.Linear(input_shape[0], feature_dim + 5)
    return net


def for_other_samples(input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Own:
    return Own((input_shape[0] + 1,), feature_dim, num_classes)


def raising(*arguments: object) -> Own:
    raise KeyError("no such thing")


def refusing(*arguments: object) -> Own:
    raise ConfigError("expected tabular samples")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("not_a_net", ": expected a torch.nn.Module, got tuple"),
        ("featureless", ": expected a method `features`, got none"),
        ("headless", ": expected a torch.nn.Linear as `head`, got NoneType"),
        ("with_another_head", ": expected a head from 4 to 3, got 5 to 3"),
        ("with_other_features", ": expected features [2, 4] of two samples of shape [5] and type float32, got [2, 9]"),
        ("for_other_samples", " cannot take samples of shape [5] and type float32: RuntimeError: "),
        ("raising", " cannot be built: KeyError: 'no such thing'"),
        ("refusing", ": expected tabular samples"),
    ],
)
def test_what_is_not_such_a_net_is_refused_by_name(name: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"net 'tests.models.test_nets:{name}'{fault}")):
        own(name)


def test_a_net_that_fits_into_no_memory_is_named_with_its_sizes() -> None:
    with pytest.raises(ConfigError) as caught:
        nets.build_net("fasttext", (16,), 2**20, 3, dtype="int64", vocab_size=2**31 - 1)
    told = str(caught.value)
    assert told.startswith("net 'fasttext' cannot be built: RuntimeError: ")
    assert told.endswith("(with [model] feature_dim = 1048576, vocab_size = 2147483647)")
    assert "\n" not in told


@pytest.mark.parametrize("name", nets.NETS)
def test_the_keys_that_a_net_has_are_known(name: str) -> None:
    parameters = inspect.signature(resolve("net", name, nets.NETS)).parameters
    assert set(nets.NET_KEYS.get(name, ())) == set(ModelConfig().settings()) & set(parameters)


def cnn(seed: int = 0) -> Net:
    seeding.seed_torch(seed, "init")
    return nets.build_net("cnn", (1, 4, 4), 5, 3)


def test_the_seed_alone_decides_the_weights() -> None:
    first = nets.flatten_parameters(cnn())
    torch.rand(10)
    assert (nets.flatten_parameters(cnn()) == first).all()
    assert (nets.flatten_parameters(cnn(1)) != first).any()


def test_arrays_are_copies_that_can_be_put_back() -> None:
    net = cnn()
    before = nets.net_arrays(net)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.add_(1)
    net.train()(torch.rand(4, 1, 4, 4))
    assert any((array != before[name]).any() for name, array in nets.net_arrays(net).items())
    nets.load_net_arrays(net, before)
    after = nets.net_arrays(net)
    assert after.keys() == before.keys()
    assert all((after[name] == before[name]).all() and after[name].dtype == before[name].dtype for name in before)


def test_other_names_or_shapes_are_refused_in_words() -> None:
    arrays = nets.net_arrays(cnn())
    with pytest.raises(ValueError, match=r"^'head.bias': expected shape \(3,\), got \(4,\)$"):
        nets.load_net_arrays(cnn(), {**arrays, "head.bias": np.zeros(4, np.float32)})
    told = r"the net has no 'a', 'b': what arrays\(\) adds to the net's own, load must take off before super\(\).load"
    with pytest.raises(ValueError, match=f"^{told}$"):
        nets.load_net_arrays(cnn(), {**arrays, "b": np.zeros(1, np.float32), "a": np.zeros(1, np.float32)})
    del arrays["head.bias"]
    with pytest.raises(ValueError, match=r"^the net's own 'head.bias' are missing$"):
        nets.load_net_arrays(cnn(), arrays)


def test_flat_arrays_carry_a_net_but_no_counters() -> None:
    net, other = cnn(0), cnn(1)
    net.train()(torch.rand(4, 1, 4, 4))
    parameters, buffers = nets.flatten_parameters(net), nets.flatten_buffers(net)
    assert parameters.dtype == buffers.dtype == np.dtype(np.float32)
    assert (len(parameters), len(buffers)) == (nets.count_parameters(net), nets.count_buffers(net))
    assert len(buffers) == 2 * (16 + 32 + 64)
    nets.load_flat(other, parameters, buffers)
    x = torch.rand(3, 1, 4, 4)
    assert torch.equal(net.eval()(x), other.eval()(x))


def test_running_variances_below_zero_are_taken_as_zero() -> None:
    net = cnn()
    nets.load_flat(net, nets.flatten_parameters(net), np.full(nets.count_buffers(net), -5.0, np.float32))
    assert sorted({*nets.flatten_buffers(net).tolist()}) == [-5.0, 0.0], "means stay as they came"
    assert net.eval()(torch.rand(3, 1, 4, 4)).isfinite().all()


def test_a_net_without_buffers_has_an_empty_array() -> None:
    net = nets.build_net("mlp", (3,), 4, 2)
    assert nets.flatten_buffers(net).shape == (0,)
    nets.load_flat(net, nets.flatten_parameters(net), np.zeros(0, np.float32))


def test_flat_arrays_of_another_size_are_refused() -> None:
    net = cnn()
    with pytest.raises(ValueError, match=r"parameters: expected \d+ entries, got shape \(3,\)"):
        nets.load_flat(net, np.zeros(3, np.float32), nets.flatten_buffers(net))
    with pytest.raises(ValueError, match=r"buffers: expected 224 entries, got shape \(0,\)"):
        nets.load_flat(net, nets.flatten_parameters(net), np.zeros(0, np.float32))


class Narrow(Net):
    """A net on a device with room for a few samples."""

    def __init__(self, room: int) -> None:
        super().__init__(3, 2)
        self.room = room
        self.tried: list[int] = []

    def features(self, x: torch.Tensor) -> torch.Tensor:
        self.tried.append(len(x))
        if len(x) > self.room:
            raise torch.cuda.OutOfMemoryError("no room")
        return x


def test_features_that_do_not_fit_at_once_come_in_smaller_batches() -> None:
    net, x = Narrow(room=70), torch.rand(300, 3)
    with pytest.warns(RuntimeWarning, match="a batch of (256|128) samples does not fit") as told:
        features = torch.cat(list(feature_batches(net, x)))
    assert torch.equal(features, x)
    assert net.tried == [256, 128, 64, 64, 64, 64, 44]
    assert len(told) == 2
    assert net.training


def test_so_they_do_with_a_torch_that_has_the_error_by_its_older_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "OutOfMemoryError", raising=False)
    with pytest.warns(RuntimeWarning, match="does not fit"):
        assert len(list(feature_batches(Narrow(room=1), torch.rand(2, 3)))) == 2


def test_a_sample_that_does_not_fit_is_an_error() -> None:
    net = Narrow(room=0)
    with pytest.warns(RuntimeWarning), pytest.raises(torch.cuda.OutOfMemoryError):
        list(feature_batches(net, torch.rand(2, 3)))
    assert net.training
