"""The one source of randomness: every draw is keyed by what it is for, and no generator's state is ever carried.

So a repeated attempt repeats its draws, and nothing depends on which client ran first or in which process.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable

import numpy as np


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
    """Fix torch's thread count and its choice of kernels: results are equal in bits only for equal thread counts.

    A GPU multiplies in full float32, so that it agrees with a CPU to about 1e-4.
    """
    import torch

    torch.set_num_threads(num_threads)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def _texts(keys: tuple[str | int, ...]) -> Iterable[str]:
    """Return keys as texts that, joined, no other keys have."""
    return map(_text, keys)


@functools.lru_cache(maxsize=256, typed=True)
def _text(key: str | int) -> str:
    """Return a key as text; in a run most come again and again."""
    return f"{type(key).__name__}:{len(str(key))}:{key}"
