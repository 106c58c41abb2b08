"""Small backbones as ONNX files."""

from pathlib import Path

import numpy as np


def write_backbone(path: Path, shape: tuple[int, ...], width: int, seed: int = 0, batch: int | str = "N") -> np.ndarray:
    """Write a backbone that flattens samples, multiplies them by a matrix and cuts at 0; return the matrix."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    num_in = int(np.prod(shape))
    weight: np.ndarray = (np.random.default_rng(seed).normal(size=(num_in, width)) / np.sqrt(num_in)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["product"]),
        helper.make_node("Relu", ["product"], ["features"]),
    ]
    graph = helper.make_graph(
        nodes,
        "backbone",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [batch, width])],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return weight
