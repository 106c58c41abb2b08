"""The pauses between attempts to reach the coordinator."""

from edge_client.reconnect import FIRST_DELAY_S, MAX_DELAY_S, MIN_JITTER, Backoff


def pauses(seed: int, count: int) -> list[float]:
    backoff = Backoff(seed)
    return [backoff.next_delay_s() for _ in range(count)]


def test_pauses_double_up_to_twenty_seconds() -> None:
    assert (FIRST_DELAY_S, MAX_DELAY_S) == (0.25, 20.0)
    for attempt, pause in enumerate(pauses(0, 40)):
        whole = min(0.25 * 2**attempt, 20.0)
        assert MIN_JITTER * whole <= pause <= whole


def test_the_jitter_uses_all_of_its_range() -> None:
    shares = sorted(pause / MAX_DELAY_S for pause in pauses(0, 400)[10:])
    assert shares[0] < 0.52
    assert shares[-1] > 0.98


def test_many_clients_do_not_return_at_once() -> None:
    assert len({pauses(seed, 1)[0] for seed in range(100)}) == 100


def test_the_same_seed_gives_the_same_pauses() -> None:
    assert pauses(7, 20) == pauses(7, 20)
    assert pauses(7, 20) != pauses(8, 20)


def test_after_a_success_pauses_are_short_again() -> None:
    backoff = Backoff(0)
    first, *_ = (backoff.next_delay_s() for _ in range(10))
    backoff.reset()
    again = backoff.next_delay_s()
    assert again <= FIRST_DELAY_S
    assert again != first


def test_any_number_of_attempts_has_a_pause() -> None:
    backoff = Backoff(0)
    backoff.attempt = 10**6
    assert MIN_JITTER * MAX_DELAY_S <= backoff.next_delay_s() <= MAX_DELAY_S
