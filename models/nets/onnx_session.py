"""An ONNX file at work in onnxruntime: whole arrays in and out, by the provider that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.spec import ConfigError, missing_package

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

_TYPES = {"float32": "tensor(float)", "int64": "tensor(int64)"}

_MAX_SAMPLES, _MAX_INPUT_BYTES = 16, 1 << 20
"""How much goes in at a time, unless a single sample is larger: bounds memory, changes no result beyond rounding."""

_ERRORS_ONLY = 3


class OnnxSession:
    """A file of one input, its first dimension the samples; `provider` is what computes it."""

    def __init__(self, path: Path, provider: str = "cpu", threads: int = 1, may_fall_back: bool = False) -> None:
        """Load a file.

        Args:
            path: the file.
            provider: `cpu`, `cuda`, `auto` for a GPU if there is one, or a name of onnxruntime's own.
            threads: for the CPU.
            may_fall_back: whether the CPU will do where the provider is not to be had.

        Raises:
            ConfigError: onnxruntime is missing, cannot load the file, or not with that provider.
        """
        self._path = path
        runtime = _onnxruntime()
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        wanted = _wanted(provider, runtime.get_available_providers(), may_fall_back)
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = _ERRORS_ONLY
        providers = list(dict.fromkeys((wanted, _PROVIDERS["cpu"])))
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:  # it has a class of its own for each fault
            raise ConfigError(f"{path}: expected an ONNX file that onnxruntime can load: {error}") from None
        self.provider = self._session.get_providers()[0]
        if self.provider != wanted and not may_fall_back:
            raise ConfigError(_fell_back(wanted, self.provider))
        if len(self._session.get_inputs()) != 1:
            raise ConfigError(f"{path}: expected an ONNX file of one input, got {len(self._session.get_inputs())}")
        self.versions = f"onnxruntime {runtime.__version__}"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts that the file carries."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, x: np.ndarray, outputs: Sequence[str] | None = None) -> list[np.ndarray]:
        """Return the named outputs, or all, for all samples.

        Raises:
            ConfigError: the file takes other samples.
        """
        self._check(x)
        names = list(outputs or (output.name for output in self._session.get_outputs()))
        name, size = self._session.get_inputs()[0].name, self._batch_size(x)
        pieces = [x[begin : begin + size] for begin in range(0, len(x), size)]
        parts = [self._session.run(names, {name: np.ascontiguousarray(piece)}) for piece in pieces]
        return [np.concatenate(of_output) for of_output in zip(*parts, strict=True)]

    def _check(self, x: np.ndarray) -> None:
        declared = self._session.get_inputs()[0]
        free = [size if isinstance(size, int) else came for size, came in zip(declared.shape, x.shape, strict=False)]
        fits = len(declared.shape) == x.ndim and free[1:] == list(x.shape[1:]) and free[0] in (1, len(x))
        if not fits or declared.type != _TYPES.get(str(x.dtype)):
            raise ConfigError(
                f"{self._path}: expected an input for samples of {list(x.shape[1:])} {x.dtype}, any number or one at a "
                f"time, got {declared.shape} {declared.type}"
            )

    def _batch_size(self, x: np.ndarray) -> int:
        if self._session.get_inputs()[0].shape[0] == 1:
            return 1
        return min(_MAX_SAMPLES, max(1, _MAX_INPUT_BYTES // max(1, x[:1].nbytes)))


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise missing_package("ONNX files need", "onnxruntime", "onnx") from None
    return onnxruntime


def _wanted(provider: str, available: Sequence[str], may_fall_back: bool) -> str:
    if provider == "auto":
        return _PROVIDERS["cuda"] if _PROVIDERS["cuda"] in available else _PROVIDERS["cpu"]
    name = _PROVIDERS.get(provider, provider)
    if name in available:
        return name
    if may_fall_back:
        return _PROVIDERS["cpu"]
    raise ConfigError(f"{_fell_back(name, _PROVIDERS['cpu'])}; this onnxruntime has {', '.join(available)}")


def _fell_back(wanted: str, came: str) -> str:
    return f"[model] provider: expected {wanted}, onnxruntime falls back to {came} (provider_fallback = true allows it)"
