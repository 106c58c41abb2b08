"""Torchvision's nets, at the sizes of image that people have."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models import nets
from models.nets.torchvision_nets import Backbone
from models.spec import ModelConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

WIDTHS = {"resnet8": 256, "resnet18": 512, "mobilenet_v2": 1280, "shufflenet_v2": 1024, "efficientnet_b0": 1280}
"""The pooled feature of each net."""


def build(name: str, shape: tuple[int, int, int] = (1, 8, 8), feature_dim: int = 10, **settings: str) -> Backbone:
    torch.manual_seed(0)
    net = nets.build_net(name, shape, feature_dim, 3, **settings)
    assert isinstance(net, Backbone)
    return net


def sides(net: Backbone, x: torch.Tensor) -> list[int]:
    """The shorter side of every map in the net, in the order in which convolutions make them."""
    found: list[int] = []
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(lambda _, __, made: found.append(min(made.shape[2:])))
    net.eval().features(x)
    return found


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 32), (2, 1, 9)])
def test_a_backbone_takes_and_trains_on_any_image(name: str, shape: tuple[int, int, int]) -> None:
    net, x = build(name, shape), torch.rand(2, *shape)
    features = net.features(x)
    assert features.shape == (2, 10)
    net.head(features).square().sum().backward()
    gradients = [tensor.grad for tensor in net.parameters()]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("name", WIDTHS)
def test_a_backbone_takes_large_colour_images_as_torchvision_does(name: str) -> None:
    net = build(name, (3, 224, 224))
    with torch.no_grad():
        found = sides(net, torch.rand(1, 3, 224, 224))
    assert found[0] == 112
    assert min(side for side in found if side > 1) == (14 if name == "resnet8" else 7)


@pytest.mark.parametrize("name", WIDTHS)
def test_small_images_are_not_shrunk_by_the_first_layers(name: str) -> None:
    small, large = (sides(build(name, (1, side, side)), torch.rand(1, 1, side, side)) for side in (8, 28))
    assert small[:2] == [8, 4 if name == "shufflenet_v2" else 8]  # whose second convolution has stride 2
    assert large[0] == 14


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_the_pooled_feature_is_narrowed_by_averaging_and_widened_by_repeating(name: str, width: int) -> None:
    x = torch.rand(2, 1, 8, 8)
    pooled = build(name, feature_dim=width).eval().features(x)
    halved = build(name, feature_dim=width // 2).eval()
    doubled = build(name, feature_dim=2 * width).eval()
    for net in (halved, doubled):
        net.body.load_state_dict(build(name, feature_dim=width).body.state_dict())
    assert torch.allclose(halved.features(x), pooled.unflatten(1, (-1, 2)).mean(dim=2), atol=1e-6)
    assert torch.equal(doubled.features(x), pooled.repeat_interleave(2, dim=1))


def test_resnet8_is_one_block_each_at_64_128_and_256_channels() -> None:
    stem, norms = 3 * 64 * 49, 2 * (3 * 64 + 3 * 128 + 3 * 256)
    blocks = 9 * (2 * 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256) + 64 * 128 + 128 * 256
    net = build("resnet8", (3, 32, 32), feature_dim=500)
    assert nets.count_parameters(net) == stem + norms + blocks + (500 + 1) * 3
    assert nets.count_buffers(net) == norms


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", 11_176_512),
        ("mobilenet_v2", 2_223_872),
        ("shufflenet_v2", 1_253_604),
        ("efficientnet_b0", 4_007_548),
    ],
)
def test_a_backbone_has_torchvisions_parameters(name: str, expected: int) -> None:
    net = build(name, (3, 32, 32))
    assert nets.count_parameters(net) - (10 + 1) * 3 == expected


@pytest.mark.parametrize("name", ["resnet8", "resnet18"])
def test_group_norm_has_no_running_statistics(name: str) -> None:
    batch, group = build(name), build(name, norm="group")
    assert nets.count_buffers(group) == 0 < nets.count_buffers(batch)
    assert nets.count_parameters(group) == nets.count_parameters(batch)


def test_the_seed_alone_decides_a_backbones_weights() -> None:
    first = nets.flatten_parameters(build("shufflenet_v2"))
    assert (nets.flatten_parameters(build("shufflenet_v2")) == first).all()


def test_a_backbone_takes_part_in_a_federation() -> None:
    spec = make_spec("fedavg", model=ModelConfig(name="resnet8", feature_dim=6))
    run = Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})
    for number in (1, 2):
        run.round(number)
    assert all(np.isfinite(array).all() for array in run.server.arrays().values())


def test_torchvision_is_left_alone_until_such_a_net_is_built() -> None:
    code = "import sys; from models import nets; nets.build_net('cnn', (1, 8, 8), 4, 3); assert 'torch' in sys.modules"
    code += "; sys.exit('torchvision' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])
