"""The mark of a loss that many clients may compute at once, what differs in it between them, and how many those are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

LossT = TypeVar("LossT", bound=Callable[..., Any])

GROUP_SIZE = 20
"""So many clients train together on a CPU; larger stacks leave its caches."""


def batchable(*varying: str) -> Callable[[LossT], LossT]:
    """Mark a `Client.loss` that `models.batched` may compute for many clients at once, by `torch.func.vmap`.

    Such a loss draws nothing, and neither a shape nor a branch in it follows from the values of a batch. But for net
    and batch, and the attributes `varying` (each a list of tensors), all that it reads is the same for every client of
    an exchange.
    """

    def mark(loss: LossT) -> LossT:
        setattr(loss, "varying", varying)  # noqa: B010 - functions have no such attribute of their own
        return loss

    return mark


def varying_of(loss: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the attributes that a loss was marked with, None for one that was not."""
    varying: tuple[str, ...] | None = getattr(loss, "varying", None)
    return varying
