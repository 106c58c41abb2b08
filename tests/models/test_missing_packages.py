"""A part whose package is not installed names that package alone, not all of the extra that has it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.audit import audit
from models.data import load_dataset
from models.nets.onnx_session import OnnxSession
from models.spec import ConfigError, DataConfig

SAMPLES = {"features": np.eye(2), "candidates": np.eye(2), "labels": np.zeros(2, np.int64)}

USES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "digits": ("sklearn", "scikit-learn", lambda folder: load_dataset(DataConfig())),
    "audit": ("sklearn", "scikit-learn", lambda folder: audit({"a": SAMPLES, "b": SAMPLES})),
    "CIFAR10": (
        "torchvision",
        "torchvision",
        lambda folder: load_dataset(DataConfig(dataset="CIFAR10", root=str(folder))),
    ),
    "onnx": ("onnxruntime", "onnxruntime", lambda folder: OnnxSession(folder / "backbone.onnx")),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_missing_is_named_alone(use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package, attempt = USES[use]
    for name in (module, *(name for name in sys.modules if name.startswith(f"{module}."))):
        monkeypatch.setitem(sys.modules, name, None)
    told = rf"needs? {package}: pip install {package}, which 'protoedge\[\w+\]' has too$"
    with pytest.raises(ConfigError) as refused:
        attempt(tmp_path)
    assert re.search(told, str(refused.value))
