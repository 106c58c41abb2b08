"""A disk that is full: how both commands and their children know it, and what they tell people to do about it."""

from __future__ import annotations

import errno

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says of a disk that is full, or of a quota that is."""

FREE_SPACE = "free some disk space"
"""What to do about it."""


def lacks_space(error: BaseException | None) -> bool:
    """Say whether it is for want of space that something could not be written, as the error or a cause of it says."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return True
        error = error.__cause__
    return False


def advised(text: str, is_full: bool) -> str:
    """Return what happened and, where the disk is full and nobody has said so yet, what to do about it."""
    return f"{text}; {FREE_SPACE}" if is_full and FREE_SPACE not in text else text
