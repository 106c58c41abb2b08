"""A trainer over a frozen backbone, in an interpreter that cannot import torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.onnx_files import write_backbone

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

ROOT = Path(__file__).parents[2]

ROUND = """
import sys

sys.modules.update(dict.fromkeys(("torch", "torchvision", "sklearn", "onnx")))  # importing one of them fails

import edge_client.trainer
from models import methods
from models.spec import ModelConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

for method in sys.argv[2:]:
    spec = make_spec(method, model=ModelConfig(name="onnx", path=sys.argv[1], feature_dim=6))
    run = Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})
    run.round(1)
    done = run.final_evaluation()["a"].evaluations
    print(method, len(done))
"""


def test_whole_rounds_need_no_torch(tmp_path: Path) -> None:
    write_backbone(tmp_path / "backbone.onnx", (1, 4, 4), 6)
    command = [sys.executable, "-c", ROUND, str(tmp_path / "backbone.onnx"), "fedproto", "headcal", "local_only"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.stdout.splitlines() == ["fedproto 1", "headcal 1", "local_only 0"], done.stderr
