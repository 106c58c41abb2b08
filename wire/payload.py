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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
import numpy as np

from wire.checks import check_class_ids, check_digest, check_finite, check_scalar, short_digest
from wire.declared import Declared, class_ids, counts, digest_of, indices, scalar, values
from wire.errors import DecodeError, EncodeError, RecordError, UnfitArrayError
from wire.indices import decode_indices, encode_indices, entropy_bytes, universe_of

__all__ = [
    "CODEC_BYTES",
    "ELEMENT_CODECS",
    "EMPTY",
    "ROW_BYTES",
    "VALUE_DTYPES",
    "Declared",
    "EncodeError",
    "Form",
    "Nothing",
    "Payload",
    "Record",
    "RecordError",
    "Scalar",
    "Sizes",
    "Tensor",
    "UnfitArrayError",
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


class Form(NamedTuple):
    """What is known of an array without its entries."""

    name: str
    codec: str
    shape: tuple[int, ...]


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
    def forms(self) -> Iterator[Form]:
        """The forms of all arrays."""
        return (Form(name, tensor.codec, tensor.data.shape) for name, tensor in self.tensors.items())

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
    def declared(cls) -> Sequence[Declared]:
        """Return the fields of this record, those last whose bound may be the size of another."""
        specs = [Declared(name=field.name, type=field.type, **field.metadata) for field in dataclasses.fields(cls)]
        return sorted(specs, key=lambda spec: spec.kind == "indices")

    def to_payload(self, value_dtype: str = "f32", dims: Mapping[str, int] | None = None) -> Payload:
        """Return this record as a payload.

        Args:
            value_dtype: the codec of value arrays, one of `VALUE_DTYPES`.
            dims: sizes that are known beforehand, by symbol: those that bound positions and that no array here has.

        Raises:
            UnfitArrayError: positions that do not strictly increase or that are out of range.
        """
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, Scalar] = {}
        sizes = dict(dims or {})
        for spec in self.declared():
            kind, content = spec.kind, getattr(self, spec.name)
            if kind in _SCALAR_KINDS:
                scalars[spec.name] = content
            elif kind == "indices":
                tensors[spec.name] = _written_positions(spec, np.asarray(content), sizes)
            else:
                tensors[spec.name] = Tensor(_codec_of(kind, value_dtype), np.asarray(content))
                sizes |= zip(spec.dims, np.shape(content), strict=False)
        return Payload(tensors, scalars)

    @classmethod
    def check_forms(cls, forms: Iterable[Form], scalars: Iterable[str], dims: Mapping[str, int]) -> Mapping[str, int]:
        """Return the sizes of all symbols but those of positions alone, as these arrays and `dims` tell them.

        No array is needed for that, which would take memory, and in a run the same few forms come again and again.

        Raises:
            RecordError: `from_payload` would refuse the names of arrays and scalars, or a codec or shape.
        """
        return cls._known_sizes(tuple(forms), tuple(scalars), tuple(dims.items()))

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def _known_sizes(
        cls, forms: tuple[Form, ...], scalars: tuple[str, ...], dims: tuple[tuple[str, int], ...]
    ) -> Mapping[str, int]:
        arrays = {form.name: form for form in forms}
        _check_names(cls.declared(), {*arrays, *scalars})
        sizes = dict(dims)
        for spec in cls.declared():
            if spec.kind not in _SCALAR_KINDS:
                _check_form(spec, arrays.get(spec.name), sizes)
        return sizes

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
        sizes = dict(cls.check_forms(payload.forms, payload.scalars, dims or {}))
        content: dict[str, Any] = dict(payload.scalars)
        for spec in cls.declared():
            if spec.kind in _SCALAR_KINDS:
                _check_scalar(spec, payload.scalars.get(spec.name), digests or {})
            else:
                content[spec.name] = _read_array(spec, payload.tensors[spec.name].data, sizes)
        record = cls(**content)
        for spec in cls.declared():
            if spec.kind == "values":
                class_of = functools.partial(record.class_of, spec, classes=classes)
                check_finite(spec.name, content[spec.name], class_of)
        record.check()
        return record

    def class_of(self, spec: Declared, row: int, classes: Sequence[str] = ()) -> str:
        """Return the class, by name or else by id, that a row of a field stands for, nothing if the record has none."""
        for other in self.declared():
            if other.kind == "class_ids" and other.dims == spec.dims[:1]:
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
        for spec in cls.declared():
            if spec.kind == "indices":
                content_bytes = content[spec.name].tobytes()
                content[spec.name] = decode_indices(content_bytes, universe_of(content_bytes))
        return cls(**content)

    @classmethod
    def elements(cls, dims: Mapping[str, int]) -> int:
        """Return the entries of this record's value arrays, from the sizes of its symbols."""
        shapes = [_shape_of(spec, dims) for spec in cls.declared() if spec.kind == "values"]
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
        for spec in cls.declared():
            kind = spec.kind
            if kind == "indices":
                size_bytes += entropy_bytes(dims[spec.of], *_shape_of(spec, dims))
            elif kind not in _SCALAR_KINDS:
                size_bytes += array_bytes(_codec_of(kind, value_dtype), _shape_of(spec, dims))
        return Sizes(cls.elements(dims), size_bytes)


@dataclass(frozen=True)
class Nothing(Record):
    """The record of an exchange that sends nothing: 0 elements, 0 payload bytes."""


@functools.lru_cache
def array_bytes(codec: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array; what has no dimension, or one, is one row."""
    return math.prod(shape) * CODEC_BYTES[codec] + math.prod(shape[:-1]) * ROW_BYTES.get(codec, 0)


def index_set(positions: np.ndarray, universe: int) -> np.ndarray:
    """Return strictly increasing positions below `universe` as the `u8` array in which they travel.

    Raises:
        UnfitArrayError: they are something else.
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


def _shape_of(spec: Declared, dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple([dims[symbol] for symbol in spec.dims])


def _exact_codec(name: str, array: np.ndarray) -> str:
    codecs = {"float64": "f64", "int64": "i64", "float32": "f32", "uint32": "u32", "uint16": "u16", "uint8": "u8"}
    codec = codecs.get(array.dtype.name)
    if codec is None:
        raise RecordError(f"array {name!r}: expected one of {sorted(codecs)}, got dtype {array.dtype.name}")
    return codec


def _universe(spec: Declared, sizes: Mapping[str, int]) -> int:
    if spec.of not in sizes:
        raise RecordError(f"field {spec.name!r}: the size of {spec.of} is not known")
    return sizes[spec.of]


def _written_positions(spec: Declared, positions: np.ndarray, sizes: Mapping[str, int]) -> Tensor:
    try:
        return Tensor("u8", index_set(positions, _universe(spec, sizes)))
    except EncodeError as error:
        raise type(error)(f"field {spec.name!r}: {error}") from None


def _read_positions(spec: Declared, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    try:
        return positions_in(array, _universe(spec, sizes))
    except DecodeError as error:
        raise RecordError(f"field {spec.name!r}: {error}") from None


def _check_names(specs: Sequence[Declared], came: set[str]) -> None:
    expected = {spec.name for spec in specs}
    if expected != came:
        raise RecordError(f"expected fields {sorted(expected)}, got {sorted(came)}")


def _check_scalar(spec: Declared, content: Scalar | None, digests: Mapping[str, str]) -> None:
    check_scalar(spec.name, spec.type, content)
    if spec.kind == "digest":
        check_digest(spec.name, spec.constant, content, digests)


def _check_form(spec: Declared, form: Form | None, sizes: dict[str, int]) -> None:
    """Check an array against its declaration, binding symbols that had no size yet in `sizes`."""
    if form is None:
        raise RecordError(f"field {spec.name!r}: expected an array, got a scalar")
    allowed = VALUE_DTYPES if spec.kind == "values" else (_codec_of(spec.kind, ""),)
    if form.codec not in allowed:
        raise RecordError(f"field {spec.name!r}: expected codec {' or '.join(allowed)}, got {form.codec}")
    if spec.kind != "indices":
        _bind_sizes(spec.name, spec.dims, form.shape, sizes)
    elif len(form.shape) != 1:
        raise RecordError(f"field {spec.name!r}: expected the bytes of an index set, got shape {form.shape}")


def _read_array(spec: Declared, array: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    """Return an array whose form was checked; the number of positions is known only now."""
    if spec.kind == "indices":
        array = _read_positions(spec, array, sizes)
        _bind_sizes(spec.name, spec.dims, array.shape, sizes)
    elif spec.kind == "class_ids":
        check_class_ids(spec.name, array, sizes.get("K"))
    return array


def _bind_sizes(name: str, dims: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if len(shape) != len(dims):
        raise RecordError(f"field {name!r}: expected {len(dims)} dimensions {dims}, got shape {shape}")
    for symbol, size in zip(dims, shape, strict=True):
        if sizes.setdefault(symbol, size) != size:
            raise RecordError(f"field {name!r}: expected {symbol} = {sizes[symbol]}, got {size} (shape {shape})")
