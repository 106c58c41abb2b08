"""Large uplinks: a few at a time, in the order of asking."""

from coordinator.grants import MAX_OPEN_GRANTS, Grants


def test_up_to_four_are_granted_at_once_and_the_rest_in_the_order_of_asking() -> None:
    grants = Grants()
    assert MAX_OPEN_GRANTS == 4
    assert [grants.offer(client) for client in "dcbagfe"] == [["d"], ["c"], ["b"], ["a"], [], [], []]
    assert [grants.release(client) for client in "bda"] == [["g"], ["f"], ["e"]]
    assert grants.release("c") == []


def test_asking_again_repeats_an_open_grant() -> None:
    grants = Grants(limit=1)
    assert grants.offer("a") == ["a"]
    assert grants.offer("a") == ["a"]
    assert grants.offer("b") == []
    assert grants.release("a") == ["b"]


def test_asking_again_does_not_change_the_place_in_the_queue() -> None:
    grants = Grants(limit=1)
    for client in "abcb":
        grants.offer(client)
    assert [grants.release(client) for client in "abc"] == [["b"], ["c"], []]


def test_who_leaves_the_queue_is_not_granted_any_more() -> None:
    grants = Grants(limit=1)
    for client in "abc":
        grants.offer(client)
    assert grants.release("b") == []
    assert grants.release("a") == ["c"]


def test_releasing_somebody_who_never_asked_changes_nothing() -> None:
    grants = Grants(limit=1)
    grants.offer("a")
    grants.offer("b")
    assert grants.release("nobody") == []
    assert grants.release("a") == ["b"]


def test_when_the_exchange_closes_who_waits_is_told_and_nothing_is_open_or_queued() -> None:
    grants = Grants(limit=1)
    grants.offer("a")
    grants.offer("b")
    assert grants.close() == ["b"]
    assert grants.close() == []
    assert grants.release("a") == []
    assert grants.offer("c") == ["c"]
