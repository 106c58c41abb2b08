"""The errors of the wire: ours before sending (`EncodeError`), the peer's on arrival (`DecodeError`)."""


class WireError(Exception):
    """Anything wrong with bytes that travel or should travel."""


class EncodeError(WireError):
    """We were about to send something that the wire cannot carry; nothing was sent."""


class UnfitArrayError(EncodeError):
    """An array, or a scalar, with content that cannot travel, such as NaN: who made it is to blame, and no setting."""


class DecodeError(WireError):
    """The peer sent bytes that are no message; the only exception that decoding raises."""


class UnknownMessageError(DecodeError):
    """A well-formed message of a kind that this version does not know: to be ignored and counted."""


class RecordError(WireError):
    """A payload that does not fit the record it was read as; the text names field, expected and what came."""
