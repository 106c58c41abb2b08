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
