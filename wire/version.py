"""The version of the wire protocol, which is not the version of the package.

A peer of another major version is refused; a higher minor version only adds messages, trailing fields, codecs that a
run must ask for, and a form of messages that goes to those alone who know it.
"""

from typing import NamedTuple


class ProtocolVersion(NamedTuple):
    """Major and minor number of the protocol in `PROTOCOL.md`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


PROTOCOL_VERSION = ProtocolVersion(1, 6)
