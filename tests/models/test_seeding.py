import os
import subprocess
import sys
from pathlib import Path

import pytest

from models import seeding


def test_seeds_are_the_same_in_every_process() -> None:
    assert seeding.derive(0) == 3456079177858693020
    assert seeding.derive(1, "client", "a", 3) == 1549757052701396243


def test_every_key_counts_with_its_type_and_its_bounds() -> None:
    keys = [(), ("a",), ("a", "b"), ("b", "a"), ("ab",), (1,), ("1",), ("a\nstr:1:b",), ("", "a"), ("a", "")]
    seeds = {seeding.derive(0, *key) for key in keys} | {seeding.derive(1)}
    assert len(seeds) == len(keys) + 1
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_generators_repeat_and_do_not_share_state() -> None:
    first = seeding.generator(0, "a").random(3)
    seeding.generator(0, "b").random(100)
    assert (seeding.generator(0, "a").random(3) == first).all()


def test_torch_is_reset_whatever_was_drawn_before() -> None:
    torch = pytest.importorskip("torch")
    seeding.seed_torch(0, "a")
    first = torch.rand(3)
    torch.rand(10)
    seeding.seed_torch(0, "a")
    assert torch.equal(torch.rand(3), first)


def test_torch_draws_what_its_own_seeding_would() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(seeding.derive(3, "client", 7))
    expected = torch.rand(3)
    seeding.seed_torch(3, "client", 7)
    assert torch.equal(torch.rand(3), expected)


def test_threads_are_set() -> None:
    torch = pytest.importorskip("torch")
    seeding.set_threads(1)
    assert torch.get_num_threads() == 1


PRODUCT = """
import hashlib, sys
import numpy as np
from models import seeding

for threads in sys.argv[1:]:
    seeding.set_threads(int(threads))
random = np.random.default_rng(0)
left, right = (random.normal(size=shape).astype(np.float32) for shape in ((100, 256), (256, 768)))
print(hashlib.sha256((left @ right).tobytes()).hexdigest())
"""
"""Prints the hash of a product that is large enough for threads to share it."""


def product(threads_at_start: int, *then: str) -> str:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads_at_start))}
    command, folder = [sys.executable, "-c", PRODUCT, *then], Path(__file__).parents[2]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_products_of_numpy_have_the_bits_of_so_many_threads_whatever_they_began_with() -> None:
    assert product(2, "1") == product(1)
