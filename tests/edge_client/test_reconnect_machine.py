"""The pauses between attempts under any order of failures and successes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from edge_client.reconnect import FIRST_DELAY_S, MAX_DELAY_S, MIN_JITTER, Backoff


class BackoffMachine(RuleBasedStateMachine):
    """A client that fails and succeeds, beside one with another history and one with the same."""

    @initialize(seed=st.integers(0, 2**63))
    def start(self, seed: int) -> None:
        self.backoff, self.twin = Backoff(seed), Backoff(seed)
        self.whole = FIRST_DELAY_S

    @rule()
    def fail(self) -> None:
        pause = self.backoff.next_delay_s()
        assert MIN_JITTER * self.whole <= pause <= self.whole <= MAX_DELAY_S
        assert pause == self.twin.next_delay_s()
        self.whole = min(2 * self.whole, MAX_DELAY_S)

    @rule()
    def fail_for_long(self) -> None:
        for _ in range(12):
            self.fail()
        assert self.whole == MAX_DELAY_S

    @rule()
    def succeed(self) -> None:
        self.backoff.reset()
        self.twin.reset()
        self.whole = FIRST_DELAY_S


TestBackoff = BackoffMachine.TestCase
TestBackoff.settings = settings(max_examples=50, stateful_step_count=30)
