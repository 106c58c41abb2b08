"""What a refusal by the coordinator means to a session: whether it is of one run alone, or of the update at hand."""

from __future__ import annotations

from wire.messages import Refusal, RefusalCode

OF_ONE_RUN = (
    RefusalCode.FEATURE_DIM, RefusalCode.LABEL_MAP, RefusalCode.MODEL, RefusalCode.DATA_INDEX, RefusalCode.LEFT_OUT,
)  # fmt: skip
"""Permanent refusals that say nothing of other runs."""

STILL_HELD = (RefusalCode.NOT_OPEN, RefusalCode.DUPLICATE)
"""Of an update that is still to come, or came already and will be acknowledged: neither is anything for people."""


def ends_holding(refusal: Refusal, run: int, task: tuple[int, int] | None) -> bool:
    """Say whether this is about the held uplink, and not about an older one; it is none that is `STILL_HELD`."""
    # An update that is stale is not of the exchange that the refusal names: if that is ours, it means an older one.
    is_of_task = (refusal.run, refusal.round, refusal.exchange) == (run, *(task or ()))
    return refusal.code != RefusalCode.STALE or not is_of_task
