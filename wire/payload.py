"""Payloads: named arrays and scalars, and the typed records that a method reads them as.

A method declares what travels as a frozen dataclass whose fields say how each is carried:

    @dataclass(frozen=True)
    class Uplink(Record):
        prototypes: np.ndarray = values("C", "D")
        counts: np.ndarray = counts("C")
        classes: np.ndarray = class_ids("C")

`wire` itself never learns these fields: `Record.to_payload` turns a record into a `Payload`, which is all that the
encoding sees, and `Record.from_payload` checks what came before a method sees it. The dimensions are symbols: one
symbol has one size within a record, so a count too few is named and not averaged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from wire.errors import RecordError

VALUE_DTYPES = ("f32", "f16", "bf16")
"""The codecs of value arrays that `[wire] value_dtype` may name."""

CODEC_BYTES = {"f64": 8, "i64": 8, "f32": 4, "u32": 4, "f16": 2, "bf16": 2, "u16": 2, "u8": 1}
"""Bytes per entry of each dense codec."""

ELEMENT_CODECS = frozenset({"f64", "f32", "f16", "bf16"})
"""Codecs whose entries count as elements, the papers' unit; ids, counts and indices are payload bytes only."""

Scalar = int | float | str | bool


class Tensor(NamedTuple):
    """One array of a payload and the codec that carries it; decoded `f16` and `bf16` arrays are float32 in `data`."""

    codec: str
    data: np.ndarray


class Sizes(NamedTuple):
    """What a payload costs: `elements` are entries of value arrays, `payload_bytes` all array bytes before headers."""

    elements: int
    payload_bytes: int


@dataclass(frozen=True)
class Payload:
    """Named arrays and scalars: all that the encoding knows of what a method sends."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays alone, by name."""
        return {name: tensor.data for name, tensor in self.tensors.items()}

    @property
    def sizes(self) -> Sizes:
        """Elements and payload bytes of these arrays."""
        entries = [(tensor.codec, int(tensor.data.size)) for tensor in self.tensors.values()]
        return _sizes_of(entries)

    @classmethod
    def of_state(cls, arrays: Mapping[str, np.ndarray]) -> Payload:
        """Wrap arrays that must come back bit for bit (a checkpoint, a child's state): each in its own dtype.

        Raises:
            RecordError: a dtype that no exact codec holds.
        """
        return cls({name: Tensor(_exact_codec(name, array), array) for name, array in arrays.items()})


EMPTY = Payload()

RecordT = TypeVar("RecordT", bound="Record")


class Record:
    """The parent of uplink and downlink records: a frozen dataclass of `values`, `counts`, `class_ids`, `scalar`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def to_payload(self, value_dtype: str = "f32") -> Payload:
        """Return this record as a payload, value arrays in `value_dtype`."""
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, Scalar] = {}
        for spec in dataclasses.fields(self):
            content = getattr(self, spec.name)
            if spec.metadata["kind"] == "scalar":
                scalars[spec.name] = content
            else:
                tensors[spec.name] = Tensor(_codec_of(spec.metadata["kind"], value_dtype), np.asarray(content))
        return Payload(tensors, scalars)

    @classmethod
    def from_payload(cls: type[RecordT], payload: Payload, dims: Mapping[str, int] | None = None) -> RecordT:
        """Read a payload as this record, strictly.

        Args:
            payload: what came.
            dims: the sizes that are known beforehand, by symbol (`{"D": 50}`); `K` bounds class ids.

        Raises:
            RecordError: a field is missing, unknown, of another kind or shape, not finite, or a class id is repeated,
                out of order or outside the label map.
        """
        sizes = dict(dims or {})
        specs = dataclasses.fields(cls)
        _check_names({spec.name for spec in specs}, {*payload.tensors, *payload.scalars})
        for spec in specs:
            if spec.metadata["kind"] == "scalar":
                _check_scalar(spec, payload.scalars.get(spec.name))
            else:
                _check_tensor(spec, payload.tensors.get(spec.name), sizes)
        return cls(**payload.arrays, **payload.scalars)

    @classmethod
    def of_checked(cls: type[RecordT], payload: Payload) -> RecordT:
        """Read a payload that `from_payload` has accepted before; nothing is checked again."""
        return cls(**payload.arrays, **payload.scalars)

    @classmethod
    def sizes(cls, dims: Mapping[str, int], value_dtype: str = "f32") -> Sizes:
        """Predict elements and payload bytes of this record from the sizes of its symbols."""
        entries = []
        for spec in dataclasses.fields(cls):
            if spec.metadata["kind"] != "scalar":
                count = math.prod(dims[symbol] for symbol in spec.metadata["dims"])
                entries.append((_codec_of(spec.metadata["kind"], value_dtype), count))
        return _sizes_of(entries)


@dataclass(frozen=True)
class Nothing(Record):
    """The record of an exchange that sends nothing: 0 elements, 0 payload bytes."""


def values(*dims: str) -> Any:
    """Declare an array of real values: the entries that count as elements, carried in the run's `value_dtype`."""
    return field(metadata={"kind": "values", "dims": dims})


def counts(*dims: str) -> Any:
    """Declare an array of sample counts, carried as `u32`."""
    return field(metadata={"kind": "counts", "dims": dims})


def class_ids(dim: str) -> Any:
    """Declare strictly increasing class ids of the run's label map, carried as `u16`."""
    return field(metadata={"kind": "class_ids", "dims": (dim,)})


def scalar() -> Any:
    """Declare a number, text or truth value, carried in the header."""
    return field(metadata={"kind": "scalar"})


def _codec_of(kind: str, value_dtype: str) -> str:
    return {"values": value_dtype, "counts": "u32", "class_ids": "u16"}[kind]


def _exact_codec(name: str, array: np.ndarray) -> str:
    codecs = {"float64": "f64", "int64": "i64", "float32": "f32", "uint32": "u32", "uint16": "u16", "uint8": "u8"}
    codec = codecs.get(array.dtype.name)
    if codec is None:
        raise RecordError(f"array {name!r}: expected one of {sorted(codecs)}, got dtype {array.dtype.name}")
    return codec


def _sizes_of(entries: list[tuple[str, int]]) -> Sizes:
    elements = sum(count for codec, count in entries if codec in ELEMENT_CODECS)
    return Sizes(elements, sum(count * CODEC_BYTES[codec] for codec, count in entries))


_SCALAR_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "str": (str,), "bool": (bool,)}


def _check_names(expected: set[str], came: set[str]) -> None:
    if expected != came:
        raise RecordError(f"expected fields {sorted(expected)}, got {sorted(came)}")


def _check_scalar(spec: dataclasses.Field[Any], content: Scalar | None) -> None:
    if content is None:
        raise RecordError(f"field {spec.name!r}: expected a scalar, got an array")
    expected = spec.type if isinstance(spec.type, str) else getattr(spec.type, "__name__", "")
    if type(content) not in _SCALAR_TYPES.get(expected, (content.__class__,)):
        raise RecordError(f"field {spec.name!r}: expected {expected}, got {type(content).__name__} {content!r:.40}")
    if isinstance(content, float) and not math.isfinite(content):
        raise RecordError(f"field {spec.name!r}: expected a finite number, got {content}")


def _check_tensor(spec: dataclasses.Field[Any], tensor: Tensor | None, sizes: dict[str, int]) -> None:
    """Check one array against its declaration, binding symbols that had no size yet in `sizes`."""
    name, kind, dims = spec.name, spec.metadata["kind"], spec.metadata["dims"]
    if tensor is None:
        raise RecordError(f"field {name!r}: expected an array, got a scalar")
    allowed = VALUE_DTYPES if kind == "values" else (_codec_of(kind, ""),)
    if tensor.codec not in allowed:
        raise RecordError(f"field {name!r}: expected codec {' or '.join(allowed)}, got {tensor.codec}")
    shape = tensor.data.shape
    if len(shape) != len(dims):
        raise RecordError(f"field {name!r}: expected {len(dims)} dimensions {dims}, got shape {shape}")
    for symbol, size in zip(dims, shape, strict=True):
        if sizes.setdefault(symbol, size) != size:
            raise RecordError(f"field {name!r}: expected {symbol} = {sizes[symbol]}, got {size} (shape {shape})")
    if kind == "values" and not np.isfinite(tensor.data).all():
        where = np.argwhere(~np.isfinite(tensor.data))[0].tolist()
        raise RecordError(f"field {name!r}: expected finite values, got {tensor.data[tuple(where)]} at {where}")
    if kind == "class_ids":
        _check_class_ids(name, tensor.data.astype(np.int64), sizes.get("K"))


def _check_class_ids(name: str, ids: np.ndarray, num_classes: int | None) -> None:
    if (np.diff(ids) <= 0).any():
        raise RecordError(f"field {name!r}: expected strictly increasing class ids, got {ids[:20].tolist()}")
    if num_classes is not None and ids.size and ids[-1] >= num_classes:
        raise RecordError(f"field {name!r}: expected class ids below {num_classes}, got {int(ids[-1])}")
