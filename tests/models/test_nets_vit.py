"""The vision transformer: against torchvision's own, its prefixes by hand, and what its weights may be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models import VisionTransformer

from models import checkpoint, nets
from models.nets.vit import Attention, Vit
from models.nets.vit_weights import read_backbone
from models.spec import ConfigError

SHAPE = (3, 14, 21)


def vit(weights: str = "", **changes: Any) -> Vit:
    sizes: dict[str, Any] = {"patch_size": 7, "depth": 2, "num_heads": 2, **changes}
    made = nets.build_net("vit", SHAPE, 8, 3, weights=weights, **sizes)
    assert isinstance(made, Vit)
    return made.eval()


def torchvisions(folder: Path) -> tuple[VisionTransformer, str]:
    """A transformer of torchvision's, of random weights throughout, and the file of them."""
    net = VisionTransformer(image_size=14, patch_size=7, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=32)
    for tensor in net.parameters():
        torch.nn.init.normal_(tensor, std=0.3)
    checkpoint.write(folder / "vit.safetensors", {name: each.numpy() for name, each in net.state_dict().items()})
    return net.eval(), str(folder / "vit.safetensors")


def test_torchvisions_weights_give_torchvisions_features(tmp_path: Path) -> None:
    theirs, path = torchvisions(tmp_path)
    ours = nets.build_net("vit", (3, 14, 14), 8, 3, patch_size=7, depth=2, num_heads=2, weights=path).eval()
    theirs.heads = torch.nn.Sequential()
    x = torch.rand(4, 3, 14, 14)
    torch.testing.assert_close(ours.features(x), theirs(x))


def test_its_own_names_are_timms() -> None:
    names = set(vit().state_dict())
    assert {"cls_token", "pos_embed", "patch_embed.proj.weight", "norm.bias", "head.weight"} <= names
    assert {
        f"blocks.1.{part}.weight" for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    } <= names


def test_weights_come_back_but_for_the_head(tmp_path: Path) -> None:
    one, path = vit(), tmp_path / "vit.safetensors"
    checkpoint.write(path, nets.net_arrays(one))
    other = vit(str(path))
    x = torch.rand(2, *SHAPE)
    assert torch.equal(one.features(x), other.features(x))
    assert not torch.equal(one.head.weight, other.head.weight)
    assert not any(name.startswith("head") for name in read_backbone(path))


def test_a_prefix_adds_keys_and_values_alone() -> None:
    torch.manual_seed(0)
    attention = Attention(4, 1)
    x_ND, (keys_LD, values_LD) = torch.randn(3, 4), torch.randn(2, 5, 4)
    query, key, value = attention.qkv(x_ND).chunk(3, dim=-1)
    scores = query @ torch.cat([keys_LD, key]).T / 2
    expected = attention.proj(scores.softmax(dim=1) @ torch.cat([values_LD, value]))
    torch.testing.assert_close(attention(x_ND[None], torch.stack([keys_LD, values_LD]))[0], expected)


def test_prefixes_are_those_of_the_first_blocks() -> None:
    net, x = vit(), torch.rand(2, *SHAPE)
    prefix = torch.randn(1, 2, 3, 8)
    plain, first = net.features(x), net.features(x, prefix)
    assert not torch.allclose(plain, first)
    seen = []
    for block in net.blocks:
        block.register_forward_hook(lambda module, inputs, output: seen.append(inputs[1] is not None))
    net.features(x, prefix)
    assert seen == [True, False]


@pytest.mark.parametrize("changes", [{"patch_size": 5}, {"num_heads": 3}])
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected images of whole patches and a width of whole heads, got 14 x 21"):
        vit(**changes)


def test_weights_of_other_sizes_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "vit.safetensors"
    checkpoint.write(path, nets.net_arrays(vit(depth=1)))
    with pytest.raises(ConfigError, match=r"12 arrays do not fit .* 'blocks.1.attn.proj.bias', has shape none"):
        vit(str(path))


@pytest.mark.parametrize("content", [None, b"no safetensors", np.arange(3).tobytes()])
def test_a_file_that_is_no_safetensors_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "vit.pt"
    if content is None:
        torch.save({"cls_token": torch.zeros(1)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"\[model\] weights: .*vit.pt: expected a safetensors file"):
        vit(str(path))


def test_what_is_frozen_is_neither_counted_nor_kept_nor_sent() -> None:
    net = vit()
    whole = nets.count_parameters(net)
    net.blocks.requires_grad_(False)
    frozen = sum(tensor.numel() for tensor in net.blocks.parameters())
    assert nets.count_parameters(net) == whole - frozen == len(nets.flatten_parameters(net))
    arrays = nets.net_arrays(net)
    assert not any(name.startswith("blocks") for name in arrays)
    nets.load_net_arrays(net, arrays)
    nets.load_flat(net, nets.flatten_parameters(net), nets.flatten_buffers(net))
