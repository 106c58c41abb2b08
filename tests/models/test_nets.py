import numpy as np
import pytest
import torch

from models import nets, seeding
from models.nets.net import Net
from models.spec import ConfigError


@pytest.mark.parametrize("name", nets.net_names())
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 1, 1), (2, 1, 9), (3, 5, 3), (1, 65, 64)])
def test_a_net_takes_any_image(name: str, shape: tuple[int, int, int]) -> None:
    net = nets.build_net(name, shape, feature_dim=7, num_classes=3)
    x = torch.rand(2, *shape)
    assert net.features(x).shape == (2, 7)
    assert (net.features(x) >= 0).all()
    assert torch.equal(net.eval()(x), net.head(net.features(x)))
    assert (net.head.in_features, net.head.out_features) == (7, 3)


def test_features_are_taken_by_the_mlp_and_refused_by_the_cnn() -> None:
    assert nets.build_net("mlp", (5,), 4, 3)(torch.rand(2, 5)).shape == (2, 3)
    with pytest.raises(ConfigError, match=r"takes images \[C, H, W\], got samples of shape \[5\]"):
        nets.build_net("cnn", (5,), 4, 3)


def test_an_unknown_net_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown net 'cn'; did you mean 'cnn'"):
        nets.build_net("cn", (1, 8, 8), 4, 3)


def test_what_is_not_a_net_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be a models\.nets\.net\.Net, got tuple"):
        nets.build_net("tests.models.test_nets:not_a_net", (1, 8, 8), 4, 3)


def not_a_net(*arguments: object) -> tuple[object, ...]:
    return arguments


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


def test_other_names_or_shapes_are_refused_with_both_sides() -> None:
    arrays = nets.net_arrays(cnn())
    with pytest.raises(ValueError, match=r"expected {'head.bias': \(3,\)}, got {'head.bias': \(4,\)}"):
        nets.load_net_arrays(cnn(), {**arrays, "head.bias": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match=r"expected {'extra': 'nothing'}, got {'extra': \(1,\)}"):
        nets.load_net_arrays(cnn(), {**arrays, "extra": np.zeros(1, np.float32)})
    del arrays["head.bias"]
    with pytest.raises(ValueError, match=r"got {'head.bias': 'nothing'}"):
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
