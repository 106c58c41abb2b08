"""Payloads: named arrays and scalars, and the typed records that a method reads them as.

A method declares what travels as a frozen dataclass whose fields say how each is carried:

    @dataclass(frozen=True)
    class Uplink(Record):
        prototypes: np.ndarray = values("C", "D")
        counts: np.ndarray = counts("C")
        classes: np.ndarray = class_ids("C")

`wire` itself never learns these fields: `Record.to_payload` turns a record into a `Payload`, which is all that the
encoding sees, and `Record.from_payload` checks what came before a method sees it. The dimensions are symbols: one
symbol has one size within a record, so a count too few is named and not averaged. Positions (`indices`) travel as an
index set in a `u8` array. A record names a run constant that it was made with by that constant's digest (`digest_of`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
import numpy as np

from wire.checks import check_class_ids, check_digest, check_finite, check_scalar, short_digest
from wire.errors import DecodeError, EncodeError, RecordError
from wire.indices import decode_indices, encode_indices, entropy_bytes, universe_of

__all__ = [
    "CODEC_BYTES",
    "ELEMENT_CODECS",
    "EMPTY",
    "ROW_BYTES",
    "VALUE_DTYPES",
    "Nothing",
    "Payload",
    "Record",
    "RecordError",
    "Scalar",
    "Sizes",
    "Tensor",
    "array_bytes",
    "class_ids",
    "counts",
    "digest_of",
    "index_set",
    "indices",
    "positions_in",
    "scalar",
    "short_digest",
    "values",
]  # fmt: skip

VALUE_DTYPES = ("f32", "f16", "bf16", "i8")
"""The codecs of value arrays that `[wire] value_dtype` may name."""

CODEC_BYTES = {"f64": 8, "i64": 8, "f32": 4, "u32": 4, "f16": 2, "bf16": 2, "u16": 2, "u8": 1, "i8": 1}
"""Bytes per entry of each dense codec."""

ROW_BYTES = {"i8": 8}
"""Bytes per row, the last dimension, beside those of its entries."""

ELEMENT_CODECS = frozenset({"f64", "f32", "f16", "bf16", "i8"})
"""Codecs whose entries count as elements, the papers' unit; ids, counts and indices are payload bytes only."""

Scalar = int | float | str | bool


class Tensor(NamedTuple):
    """One array of a payload and the codec that carries it; decoded `f16`, `bf16`, `i8` are float32 in `data`."""

    codec: str
    data: np.ndarray


class Sizes(NamedTuple):
    """What a payload costs: `elements` are entries of value arrays, `payload_bytes` all array bytes before headers."""

    elements: int
    payload_bytes: int


class Payload(msgspec.Struct, frozen=True):
    """Named arrays and scalars: all that the encoding knows of what a method sends."""

    tensors: Mapping[str, Tensor] = msgspec.field(default_factory=dict)
    scalars: Mapping[str, Scalar] = msgspec.field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays alone, by name."""
        return {name: tensor.data for name, tensor in self.tensors.items()}

    @property
    def sizes(self) -> Sizes:
        """Elements and payload bytes of these arrays."""
        shapes = [(tensor.codec, tensor.data.shape) for tensor in self.tensors.values()]
        elements = sum(math.prod(shape) for codec, shape in shapes if codec in ELEMENT_CODECS)
        return Sizes(elements, sum(array_bytes(codec, shape) for codec, shape in shapes))

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
    """The parent of uplink and downlink records: a frozen dataclass of `values`, `counts` and the like, see below."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @classmethod
    @functools.cache
    def _positions_last(cls) -> Sequence[dataclasses.Field[Any]]:
        """Return the fields of this record, those last whose bound may be the size of another."""
        return sorted(dataclasses.fields(cls), key=lambda spec: bool(spec.metadata["kind"] == "indices"))

    def to_payload(self, value_dtype: str = "f32", dims: Mapping[str, int] | None = None) -> Payload:
        """Return this record as a payload.

        Args:
            value_dtype: the codec of value arrays, one of `VALUE_DTYPES`.
            dims: sizes that are known beforehand, by symbol: those that bound positions and that no array here has.

        Raises:
            EncodeError: positions that do not strictly increase or that are out of range.
        """
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, Scalar] = {}
        sizes = dict(dims or {})
        for spec in self._positions_last():
            kind, content = spec.metadata["kind"], getattr(self, spec.name)
            if kind in _SCALAR_KINDS:
                scalars[spec.name] = content
            elif kind == "indices":
                tensors[spec.name] = _written_positions(spec, np.asarray(content), sizes)
            else:
                tensors[spec.name] = Tensor(_codec_of(kind, value_dtype), np.asarray(content))
                sizes |= zip(spec.metadata["dims"], np.shape(content), strict=False)
        return Payload(tensors, scalars)

    @classmethod
    def check_shapes(
        cls, shapes: Mapping[str, Sequence[int]], scalars: Collection[str], dims: Mapping[str, int]
    ) -> None:
        """Refuse names and shapes that `from_payload` would refuse, before any array is decoded, which takes memory.

        Raises:
            RecordError: as there.
        """
        _check_names(cls._positions_last(), {*shapes, *scalars})
        sizes = dict(dims)
        for spec in cls._positions_last():
            if spec.name in shapes and spec.metadata["kind"] not in {"indices", *_SCALAR_KINDS}:
                _bind_sizes(spec.name, spec.metadata["dims"], tuple(shapes[spec.name]), sizes)

    @classmethod
    def from_payload(
        cls: type[RecordT],
        payload: Payload,
        dims: Mapping[str, int] | None = None,
        digests: Mapping[str, str] | None = None,
        classes: Sequence[str] = (),
    ) -> RecordT:
        """Read a payload as this record, strictly.

        Args:
            payload: what came.
            dims: the sizes that are known beforehand, by symbol (`{"D": 50}`); `K` bounds class ids.
            digests: the digests of the run's constants, by name; what was made with another one is refused.
            classes: the label map, for refusals that name a class; without it they have its id.

        Raises:
            RecordError: a field is missing, unknown, of another kind or shape, not finite, or made with another run
                constant, or a class id or position is repeated, out of order or out of range; or `check` refuses it.
        """
        sizes = dict(dims or {})
        content: dict[str, Any] = dict(payload.scalars)
        _check_names(cls._positions_last(), {*payload.tensors, *payload.scalars})
        for spec in cls._positions_last():
            if spec.metadata["kind"] in _SCALAR_KINDS:
                _check_scalar(spec, payload.scalars.get(spec.name), digests or {})
            else:
                content[spec.name] = _read_array(spec, payload.tensors.get(spec.name), sizes)
        record = cls(**content)
        for spec in cls._positions_last():
            if spec.metadata["kind"] == "values":
                class_of = functools.partial(record.class_of, spec, classes=classes)
                check_finite(spec.name, content[spec.name], class_of)
        record.check()
        return record

    def class_of(self, spec: dataclasses.Field[Any], row: int, classes: Sequence[str] = ()) -> str:
        """Return the class, by name or else by id, that a row of a field stands for, nothing if the record has none."""
        for other in dataclasses.fields(self):
            if other.metadata["kind"] == "class_ids" and other.metadata["dims"] == spec.metadata["dims"][:1]:
                label = int(getattr(self, other.name)[row])
                return repr(classes[label]) if label < len(classes) else str(label)
        return ""

    def check(self) -> None:
        """Refuse what is well-formed but wrong; a method's record says here what its fields' declarations cannot.

        Raises:
            RecordError: the text names the field, what was expected and what came.
        """

    @classmethod
    def of_checked(cls: type[RecordT], payload: Payload) -> RecordT:
        """Read a payload that `from_payload` has accepted before; nothing is checked again."""
        content: dict[str, Any] = {**payload.arrays, **payload.scalars}
        for spec in dataclasses.fields(cls):
            if spec.metadata["kind"] == "indices":
                content_bytes = content[spec.name].tobytes()
                content[spec.name] = decode_indices(content_bytes, universe_of(content_bytes))
        return cls(**content)

    @classmethod
    def elements(cls, dims: Mapping[str, int]) -> int:
        """Return the entries of this record's value arrays, from the sizes of its symbols."""
        shapes = [_shape_of(spec, dims) for spec in cls._positions_last() if spec.metadata["kind"] == "values"]
        return sum(math.prod(shape) for shape in shapes)

    @classmethod
    def sizes(cls, dims: Mapping[str, int], value_dtype: str = "f32") -> Sizes:
        """Predict elements and payload bytes of this record from the sizes of its symbols.

        The bytes are exact but for `indices`: there they are the entropy of a random set, which its code exceeds by at
        most 3 % and 8 bytes, 4.5 % where 0.3 to 0.7 of the positions are members.
        """
        return cls._sizes(tuple(dims.items()), value_dtype)

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def _sizes(cls, known: tuple[tuple[str, int], ...], value_dtype: str) -> Sizes:
        dims, size_bytes = dict(known), 0
        for spec in cls._positions_last():
            kind = spec.metadata["kind"]
            if kind == "indices":
                size_bytes += entropy_bytes(dims[spec.metadata["of"]], *_shape_of(spec, dims))
            elif kind not in _SCALAR_KINDS:
                size_bytes += array_bytes(_codec_of(kind, value_dtype), _shape_of(spec, dims))
        return Sizes(cls.elements(dims), size_bytes)


@dataclass(frozen=True)
class Nothing(Record):
    """The record of an exchange that sends nothing: 0 elements, 0 payload bytes."""


def values(*dims: str) -> Any:
    """Declare an array of real values: the entries that count as elements, carried in the run's `value_dtype`."""
    return field(metadata={"kind": "values", "dims": dims})


def counts(*dims: str, of_samples: bool = True) -> Any:
    """Declare an array of counts, carried as `u32`: of train samples, of which no client has more than it announced."""
    return field(metadata={"kind": "counts", "dims": dims, "of_samples": of_samples})


def class_ids(dim: str) -> Any:
    """Declare strictly increasing class ids of the run's label map, carried as `u16`."""
    return field(metadata={"kind": "class_ids", "dims": (dim,)})


def indices(count: str, of: str) -> Any:
    """Declare strictly increasing positions, int64 [count] and each below the size of `of`, carried as an index set."""
    return field(metadata={"kind": "indices", "dims": (count,), "of": of})


def scalar() -> Any:
    """Declare a number, text or truth value, carried in the header."""
    return field(metadata={"kind": "scalar"})


def digest_of(constant: str) -> Any:
    """Declare the `short_digest` of a run constant, a text in the header: what the rest of the record was made with."""
    return field(metadata={"kind": "digest", "constant": constant})


@functools.lru_cache
def array_bytes(codec: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array; what has no dimension, or one, is one row."""
    return math.prod(shape) * CODEC_BYTES[codec] + math.prod(shape[:-1]) * ROW_BYTES.get(codec, 0)


def index_set(positions: np.ndarray, universe: int) -> np.ndarray:
    """Return strictly increasing positions below `universe` as the `u8` array in which they travel.

    Raises:
        EncodeError: they are something else.
    """
    return np.frombuffer(encode_indices(positions, universe), np.uint8)


def positions_in(index_set: np.ndarray, universe: int) -> np.ndarray:
    """Return the positions, int64 [B], of what `index_set` made for the same `universe`.

    Raises:
        DecodeError: the array is something else.
    """
    return decode_indices(index_set.tobytes(), universe)


_SCALAR_KINDS = ("scalar", "digest")

_CODEC_OF = {"counts": "u32", "class_ids": "u16", "indices": "u8"}


def _codec_of(kind: str, value_dtype: str) -> str:
    return value_dtype if kind == "values" else _CODEC_OF[kind]


def _shape_of(spec: dataclasses.Field[Any], dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple([dims[symbol] for symbol in spec.metadata["dims"]])


def _exact_codec(name: str, array: np.ndarray) -> str:
    codecs = {"float64": "f64", "int64": "i64", "float32": "f32", "uint32": "u32", "uint16": "u16", "uint8": "u8"}
    codec = codecs.get(array.dtype.name)
    if codec is None:
        raise RecordError(f"array {name!r}: expected one of {sorted(codecs)}, got dtype {array.dtype.name}")
    return codec


def _universe(spec: dataclasses.Field[Any], sizes: Mapping[str, int]) -> int:
    symbol: str = spec.metadata["of"]
    if symbol not in sizes:
        raise RecordError(f"field {spec.name!r}: the size of {symbol} is not known")
    return sizes[symbol]


def _written_positions(spec: dataclasses.Field[Any], positions: np.ndarray, sizes: Mapping[str, int]) -> Tensor:
    try:
        return Tensor("u8", index_set(positions, _universe(spec, sizes)))
    except EncodeError as error:
        raise EncodeError(f"field {spec.name!r}: {error}") from None


def _read_positions(spec: dataclasses.Field[Any], array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    if array.ndim != 1:
        raise RecordError(f"field {spec.name!r}: expected the bytes of an index set, got shape {array.shape}")
    try:
        return positions_in(array, _universe(spec, sizes))
    except DecodeError as error:
        raise RecordError(f"field {spec.name!r}: {error}") from None


def _check_names(specs: Sequence[dataclasses.Field[Any]], came: set[str]) -> None:
    expected = {spec.name for spec in specs}
    if expected != came:
        raise RecordError(f"expected fields {sorted(expected)}, got {sorted(came)}")


def _check_scalar(spec: dataclasses.Field[Any], content: Scalar | None, digests: Mapping[str, str]) -> None:
    check_scalar(spec.name, spec.type, content)
    if spec.metadata["kind"] == "digest":
        check_digest(spec.name, spec.metadata["constant"], content, digests)


def _read_array(spec: dataclasses.Field[Any], tensor: Tensor | None, sizes: dict[str, int]) -> np.ndarray:
    """Return one array after checks against its declaration, binding symbols that had no size yet in `sizes`."""
    name, kind = spec.name, spec.metadata["kind"]
    if tensor is None:
        raise RecordError(f"field {name!r}: expected an array, got a scalar")
    allowed = VALUE_DTYPES if kind == "values" else (_codec_of(kind, ""),)
    if tensor.codec not in allowed:
        raise RecordError(f"field {name!r}: expected codec {' or '.join(allowed)}, got {tensor.codec}")
    array = _read_positions(spec, tensor.data, sizes) if kind == "indices" else tensor.data
    _bind_sizes(name, spec.metadata["dims"], array.shape, sizes)
    if kind == "class_ids":
        check_class_ids(name, array, sizes.get("K"))
    return array


def _bind_sizes(name: str, dims: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if len(shape) != len(dims):
        raise RecordError(f"field {name!r}: expected {len(dims)} dimensions {dims}, got shape {shape}")
    for symbol, size in zip(dims, shape, strict=True):
        if sizes.setdefault(symbol, size) != size:
            raise RecordError(f"field {name!r}: expected {symbol} = {sizes[symbol]}, got {size} (shape {shape})")
