"""The one source of randomness: every draw is keyed by what it is for, and no generator's state is ever carried.

So a repeated attempt repeats its draws, and nothing depends on which client ran first or in which process.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

_BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
)
"""Names in numpy's own wheels, of now and then, and in what distributions build."""


def derive(seed: int, *keys: str | int) -> int:
    """Return a seed in [0, 2**63) for these keys (role, client id, round, purpose ...), the same in every process."""
    text = "\n".join([str(int(seed)), *_texts(keys)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *keys: str | int) -> np.random.Generator:
    """Return a new numpy generator for these keys."""
    return np.random.default_rng(derive(seed, *keys))


def secret_generator(secret: bytes, *keys: str | int) -> np.random.Generator:
    """Return a new numpy generator for these keys, whose draws only who has the secret can repeat."""
    keyed = hashlib.blake2b("\n".join(_texts(keys)).encode(), key=secret, digest_size=32)
    return np.random.default_rng(int.from_bytes(keyed.digest(), "big"))


def seed_torch(seed: int, *keys: str | int) -> None:
    """Reset torch's global generators, on all devices, to these keys."""
    import torch

    # `torch.manual_seed` does the same, but formats a stack trace each time on machines without a GPU.
    number = derive(seed, *keys)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def set_threads(num_threads: int) -> None:
    """Fix the threads of numpy and, where it is loaded, of torch: results have equal bits only for equal numbers.

    Torch's choice of kernels is fixed too; a GPU multiplies in full float32, to agree with a CPU to about 1e-4.
    """
    for set_number in _blas_setters():
        set_number(num_threads)
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(num_threads)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


@functools.cache
def _blas_setters() -> list[Callable[[int], None]]:
    """Return what sets the threads of the library of numpy's products, where it has such.

    The environment tells it as numpy is imported: that does for children, not for a simulation's own process.
    """
    import ctypes

    linked_with_it = sys.modules.get("numpy.linalg._umath_linalg")
    library = ctypes.CDLL(getattr(linked_with_it, "__file__", None))
    return [getattr(library, name) for name in _BLAS_SETTERS if hasattr(library, name)]


def _texts(keys: tuple[str | int, ...]) -> Iterable[str]:
    """Return keys as texts that, joined, no other keys have."""
    return map(_text, keys)


@functools.lru_cache(maxsize=256, typed=True)
def _text(key: str | int) -> str:
    """Return a key as text; in a run most come again and again."""
    return f"{type(key).__name__}:{len(str(key))}:{key}"
