"""How a method declares what travels in a field of a record, and what such a declaration says.

A declaration is the field's metadata in the record's dataclass; the dimensions are symbols, see `wire.payload`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

import msgspec


class Declared(msgspec.Struct, frozen=True):
    """One field: its name and annotation, what it carries, and the symbols of its dimensions.

    Attributes:
        name: as in the record and on the wire.
        type: the annotation, by which scalars are checked.
        kind: what it carries; the functions below are named alike.
        dims: one symbol for each dimension of an array.
        of: of positions, the symbol whose size bounds them.
        constant: of a digest, the run constant.
        of_samples: of counts, whether they are of train samples.
    """

    name: str
    type: Any
    kind: Literal["values", "counts", "class_ids", "indices", "scalar", "digest"]
    dims: tuple[str, ...] = ()
    of: str = ""
    constant: str = ""
    of_samples: bool = False


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
