"""What is checked of the content of a record's fields before a method sees it; every refusal names the field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wire.errors import RecordError

DIGEST_CHARACTERS = 12
"""How much of a run constant's digest others repeat: 48 bits tell the constants of different runs apart."""

_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_CHARACTERS}}}")
_SCALAR_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "str": (str,), "bool": (bool,)}


def short_digest(full: str) -> str:
    """Return the part of a run constant's digest that `digest_of` fields carry."""
    return full[:DIGEST_CHARACTERS]


def check_scalar(name: str, declared: Any, content: Any) -> None:
    """Refuse a scalar of another type than `declared`, the field's annotation, and a float that is not finite."""
    if content is None:
        raise RecordError(f"field {name!r}: expected a scalar, got an array")
    expected = declared if isinstance(declared, str) else getattr(declared, "__name__", "")
    if type(content) not in _SCALAR_TYPES.get(expected, (content.__class__,)):
        raise RecordError(f"field {name!r}: expected {expected}, got {type(content).__name__} {content!r:.40}")
    if isinstance(content, float) and not math.isfinite(content):
        raise RecordError(f"field {name!r}: expected a finite number, got {content}")


def check_digest(name: str, constant: str, content: Any, digests: Mapping[str, str]) -> None:
    """Refuse a text that is no short digest, and the digest of another constant than the one in `digests`."""
    check_scalar(name, "str", content)
    if not _DIGEST.fullmatch(content):
        raise RecordError(f"field {name!r}: expected {DIGEST_CHARACTERS} hexadecimal characters, got {content!r:.40}")
    if constant in digests and content != short_digest(digests[constant]):
        expected = short_digest(digests[constant])
        raise RecordError(f"field {name!r}: expected the run's {constant!r} with digest {expected}, got {content}")


def check_finite(name: str, values: np.ndarray, class_of: Callable[[int], str]) -> None:
    """Refuse values with a NaN or an infinity among them; `class_of` names the class of a row, if it has one."""
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(values))[0].tolist()
        label = class_of(where[0])
        place, at = (f", class {label}", "") if label else ("", f" at {where}")
        raise RecordError(f"field {name!r}{place}: expected finite values, got {values[tuple(where)]}{at}")


def check_class_ids(name: str, ids: np.ndarray, num_classes: int | None) -> None:
    """Refuse class ids that do not strictly increase or that are outside the label map, where its size is known."""
    if (ids[1:] <= ids[:-1]).any():
        raise RecordError(f"field {name!r}: expected strictly increasing class ids, got {ids[:20].tolist()}")
    if num_classes is not None and ids.size and ids[-1] >= num_classes:
        raise RecordError(f"field {name!r}: expected class ids below {num_classes}, got {int(ids[-1])}")
