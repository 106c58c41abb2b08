"""Who is here under any order of events: one client per route, and nobody alive is pushed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.clients.membership import PROBE_S, Admit, Instruction, Lost, Membership, Probe, RefuseDuplicate

HEARTBEAT_S = 3.0
SILENCE_S = 2 * HEARTBEAT_S

ids = st.sampled_from("abc")
incarnations = st.integers(1, 3)
routes = st.sampled_from([b"1", b"2", b"3", b"4"])


@dataclass
class Holder:
    """Whoever has an id, as the instructions tell it."""

    route: bytes
    incarnation: int
    proven_at: float


@dataclass
class Asker:
    """Whoever waits for an id that another process holds."""

    route: bytes
    incarnation: int
    since: float


class MembershipMachine(RuleBasedStateMachine):
    """Peers that say anything by any route, honest or not, beside a plain account of what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.here = Membership(HEARTBEAT_S)
        self.holders: dict[str, Holder] = {}
        self.askers: dict[str, Asker] = {}

    @rule(seconds=st.sampled_from([0.1, 1.0, PROBE_S, HEARTBEAT_S, SILENCE_S]))
    def pass_time(self, seconds: float) -> None:
        self.at += seconds

    @rule(client=ids, route=routes, incarnation=incarnations)
    def hello(self, client: str, route: bytes, incarnation: int) -> None:
        found = self.here.hello(client, route, incarnation, self.at)
        self.askers = {id: asker for id, asker in self.askers.items() if asker.route != route or id == client}
        answers = [each for each in found if isinstance(each, Admit | Probe) and each.client == client]
        others = [each for each in found if each not in answers]
        self.take(others, may_lose=lambda other: other != client and self.holders[other].route == route)
        holder = self.holders.get(client)
        if holder is None or holder.incarnation == incarnation:
            assert answers == [Admit(client, route)]
            assert client not in self.askers
            self.holders[client] = Holder(route, incarnation, self.at)
        else:
            is_probed = client in self.askers
            assert answers == ([] if is_probed else [Probe(client, holder.route)])
            since = self.askers[client].since if is_probed else self.at
            self.askers[client] = Asker(route, incarnation, since)

    @rule(route=routes, ago_s=st.sampled_from([0.0, 0.5, PROBE_S]))
    def hear(self, route: bytes, ago_s: float) -> None:
        """Something else came, now or a little earlier: nobody loses a place by it, nor gets one yet."""
        self.note_movement(route, self.at - ago_s)
        self.here.heard(route, self.at - ago_s)

    @rule(route=routes)
    def answer(self, route: bytes) -> None:
        """Its sender lives."""
        self.note_movement(route, self.at)
        client = self.here.client_at(route)
        self.take(self.here.answered(route, self.at), may_lose=lambda other: False)
        assert client not in self.askers

    @rule(route=routes)
    def still_send(self, route: bytes) -> None:
        """What was sent there has yet to go out."""
        self.put_off(route, self.at)
        self.here.still_sending(route, self.at)

    @rule(route=routes)
    def cannot_reach(self, route: bytes) -> None:
        self.take(self.here.unreachable(route, self.at), may_lose=lambda other: self.holders[other].route == route)

    @rule(route=routes)
    def leave(self, route: bytes) -> None:
        found = self.here.goodbye(route, "the end", self.at)
        self.take(found, may_lose=lambda other: self.holders[other].route == route)

    @rule()
    def tick(self) -> None:
        self.take(self.here.tick(self.at), may_lose=self.did_not_answer)
        due = self.here.next_wakeup()
        assert due is None or due > self.at

    @invariant()
    def the_accounts_agree(self) -> None:
        holders = {client: (member.route, member.incarnation) for client, member in self.here.members.items()}
        assert holders == {client: (holder.route, holder.incarnation) for client, holder in self.holders.items()}

    @invariant()
    def a_client_has_one_route_and_a_route_one_client(self) -> None:
        held = {holder.route: client for client, holder in self.holders.items()}
        assert len(held) == len(self.holders)
        for route in (b"1", b"2", b"3", b"4"):
            assert self.here.client_at(route) == held.get(route)

    @invariant()
    def silence_and_questions_are_bounded(self) -> None:
        times = [holder.proven_at + SILENCE_S for holder in self.holders.values()]
        times += [asker.since + PROBE_S for asker in self.askers.values()]
        assert self.here.next_wakeup() == min(times, default=None)

    def did_not_answer(self, client: str) -> bool:
        """Whether this holder may be given up: silent for too long, or for a while since it was asked."""
        proven_at, asker = self.holders[client].proven_at, self.askers.get(client)
        if self.at >= proven_at + SILENCE_S:
            return True
        return asker is not None and self.at >= asker.since + PROBE_S and proven_at <= asker.since

    def note_movement(self, route: bytes, at: float) -> None:
        client = self.here.client_at(route)
        if client is not None:
            self.holders[client].proven_at = max(self.holders[client].proven_at, at)
            self.put_off(route, at)

    def put_off(self, route: bytes, since: float) -> None:
        asker = self.askers.get(self.here.client_at(route) or "")
        if asker is not None:
            asker.since = max(asker.since, since)

    def take(self, found: Sequence[Instruction], may_lose: Callable[[str], bool]) -> None:
        """Account for instructions, and check that a place changes hands only after its holder was lost."""
        for instruction in found:
            client = instruction.client
            if isinstance(instruction, Lost):
                assert may_lose(client)
                del self.holders[client]
            elif isinstance(instruction, Admit):
                assert client not in self.holders
                asker = self.askers.pop(client)
                assert asker.route == instruction.route
                self.holders[client] = Holder(asker.route, asker.incarnation, self.at)
            else:
                assert isinstance(instruction, RefuseDuplicate)
                assert client in self.holders
                assert self.askers.pop(client).route == instruction.route


TestMembership = MembershipMachine.TestCase
TestMembership.settings = settings(max_examples=100, stateful_step_count=40)
