"""A client's model as one ONNX file: features, and beside them the scores of each accuracy rule that it has.

What else a user needs stands in the file's metadata, under one key, as JSON: the label map, which class each score is
of, and what samples look like. Needs the package `onnx`, and for int8 files onnxruntime.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.checkpoint import TEMPORARY_SUFFIX
from models.linear_rules import LinearRule
from models.spec import ConfigError, RunSpec, in_one_line

if TYPE_CHECKING:
    from models.methods.api import Method

METADATA_KEY = "protoedge"

FEATURES = "features"
"""The output that holds the features; every other one is named for its rule."""

_CALIBRATION_SAMPLES = 128


def described(spec: RunSpec, method: Method, client: str, shape: Sequence[int]) -> dict[str, Any]:
    """Return what is to be known about a client's model for samples of this shape; see `write_model`."""
    return {
        "run": spec.run_id,
        "client": client,
        "method": method.name,
        "classes": spec.classes,
        "shape": list(shape),
        "mean": list(spec.data.mean),
        "std": list(spec.data.std),
        "default_rule": method.headline_rule(spec.evaluation.rule),
    }


def write_model(path: Path, graph: Any, rules: Mapping[str, LinearRule], about: Mapping[str, Any]) -> None:
    """Write an ONNX model whose one output is `FEATURES`, with these rules and what is to be known about it.

    Raises:
        ConfigError: the file cannot be written.
    """
    held = {name: rule for name, rule in rules.items() if len(rule.classes)}
    for name, rule in held.items():
        append_affine(graph, FEATURES, name, rule.weight_AD, rule.bias_A)
    classes = {name: rule.classes.tolist() for name, rule in held.items()}
    distances = [name for name, rule in held.items() if rule.is_distance]
    _save(path, graph, json.dumps({**about, "rules": classes, "prototype_rules": distances}))


def load_features(path: Path) -> Any:
    """Return the model of a backbone, for `project`: its first output is flattened to [N, W], all others are gone."""
    onnx = require_onnx()
    from onnx.compose import add_prefix

    graph = add_prefix(onnx.load(str(path)), "backbone/")  # so that no name of its own is one of ours
    source = graph.graph.output[0].name
    del graph.graph.output[:]
    graph.graph.node.append(onnx.helper.make_node("Flatten", [source], [_inner(FEATURES)], _inner("flatten")))
    return graph


def project(graph: Any, weight: np.ndarray, bias: np.ndarray) -> None:
    """Append the projection of what `load_features` returned, in place."""
    append_affine(graph, _inner(FEATURES), FEATURES, weight, bias)


def append_affine(graph: Any, source: str, output: str, weight: np.ndarray, bias: np.ndarray) -> None:
    """Append `output = source @ weight.T + bias` to a model, in place."""
    onnx = require_onnx()
    names = [_inner(f"{output}.weight"), _inner(f"{output}.bias")]
    for name, array in zip(names, (weight, bias), strict=True):
        graph.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))
    graph.graph.node.append(onnx.helper.make_node("Gemm", [source, *names], [output], _inner(output), transB=1))
    rows = graph.graph.input[0].type.tensor_type.shape.dim[0]
    shape = [rows.dim_value or rows.dim_param or "N", len(bias)]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, shape))


def quantize(path: Path, out: Path, samples: np.ndarray) -> None:
    """Write a model with the extractor's weights and activations in int8, their ranges taken from these samples.

    Raises:
        ConfigError: the file cannot be written, or onnxruntime makes no such model of this net.
    """
    onnx = require_onnx()
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quant_pre_process, quantize_static

    graph = onnx.load(str(path))
    name, rows = graph.graph.input[0].name, graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value or 32
    batches: Iterator[np.ndarray] = iter(
        samples[begin : begin + rows] for begin in range(0, min(len(samples), _CALIBRATION_SAMPLES), rows)
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Yields the samples batch by batch."""

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(batches, None)
            return None if batch is None else {name: batch}

    rules = [layer.name for layer in graph.graph.node if layer.name.startswith(_inner(""))]
    kinds = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8, "per_channel": True}
    with _draft_of(out) as draft, _told_of(path):
        quant_pre_process(str(path), str(draft), skip_optimization=True, skip_symbolic_shape=True)
        quantize_static(str(draft), str(draft), Reader(), nodes_to_exclude=rules, **kinds)
        made = onnx.load(str(draft))
        onnx.checker.check_model(made)
    (text,) = (entry.value for entry in graph.metadata_props if entry.key == METADATA_KEY)
    _save(out, made, text)


def require_onnx() -> Any:
    """Return the package.

    Raises:
        ConfigError: it is not installed; the text says how to get it.
    """
    try:
        import onnx
    except ImportError:
        raise ConfigError("writing ONNX files needs onnx: pip install 'protoedge[onnx]'") from None
    return onnx


def _save(path: Path, graph: Any, text: str) -> None:
    onnx = require_onnx()
    kept = [entry for entry in graph.metadata_props if entry.key != METADATA_KEY]
    del graph.metadata_props[:]
    graph.metadata_props.extend(kept)
    graph.metadata_props.add(key=METADATA_KEY, value=text)
    onnx.checker.check_model(graph)
    with _draft_of(path) as draft:
        draft.write_bytes(graph.SerializeToString())
        draft.replace(path)


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Tell of what goes wrong with a model as of a net that cannot be made int8; of files `_draft_of` tells.

    Raises:
        ConfigError: something went wrong.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # there is no class for it
        cause = in_one_line(f"{type(error).__name__}: {error}")
        raise ConfigError(f"{path} is written, but onnxruntime makes no int8 model of this net: {cause}") from error


@contextlib.contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """Yield a file beside this one to write to, which is gone afterwards, so that this one is never half written.

    Raises:
        ConfigError: it cannot be written.
    """
    draft = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        yield draft
    except OSError as error:
        raise ConfigError(f"{path}: expected a file to write a model to: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _inner(name: str) -> str:
    """Return a name that no backbone has."""
    return f"protoedge/{name}"
