"""Which of a board's rails together are all that it draws."""

from __future__ import annotations

from collections.abc import Collection, Sequence

TOTALS = ("VDD_IN", "POM_5V_IN", "5V_IN")
"""Rails that all others are behind: of TX2, Xavier NX, Orin NX and Orin Nano; of Nano and TX1; the latter by hwmon."""

NOT_CONNECTED = "NC"
"""What a board calls a channel that measures nothing; what such a one says is noise."""


def whole(rails: Collection[str]) -> Sequence[str]:
    """Return the rail that has all power of the module, or else all connected ones (AGX boards have none)."""
    return [rail for rail in TOTALS if rail in rails][:1] or sorted(set(rails) - {NOT_CONNECTED})
