"""What is the same wherever clients are greeted, be it for one run or by a service: who is let in, and who is heard."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.membership import Instruction, Membership
from models.settings import is_plain_name
from wire.messages import Hello, RefusalCode
from wire.version import PROTOCOL_VERSION, ProtocolVersion


def fault_of(hello: Hello, owner: str | None) -> tuple[str, str] | None:
    """Return code and reason of why no run may have a client, if so; `owner` is whose key its connection has."""
    theirs = ProtocolVersion(*hello.version)
    if theirs.major != PROTOCOL_VERSION.major:
        reason = f"the coordinator speaks protocol {PROTOCOL_VERSION}, {hello.client[:80]} speaks {theirs}"
        return RefusalCode.VERSION, reason
    if not is_plain_name(hello.client):
        reason = f"expected a client id of letters, digits and . _ -, got {hello.client[:80]!r}"
        return RefusalCode.CLIENT_ID, reason
    if owner not in (None, hello.client):
        reason = f"the key is that of {owner}, the client says that it is {hello.client}"
        return RefusalCode.KEY, reason
    return None


def duplicate(client: str) -> tuple[str, str]:
    """Return code and reason of why a second process of a client is refused."""
    return RefusalCode.DUPLICATE_CLIENT, f"client id {client!r} is held by a client that is connected and alive"


def speaker(membership: Membership, route: bytes, owner: str | None) -> str | None:
    """Return the client that may speak through a connection with its owner's key, None if nobody may."""
    client = membership.client_at(route)
    return client if owner in (None, client) else None


def pass_time(membership: Membership, quiet_s: Callable[[bytes], float | None], at: float) -> list[Instruction]:
    """Return what follows as time has passed; who is in the middle of a long message is not silent."""
    for member in membership.silent(at):
        moved_before_s = quiet_s(member.route)
        if moved_before_s is not None:
            membership.moved(member.route, at - moved_before_s)
    return membership.tick(at)
