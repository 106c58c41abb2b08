"""The protocol's version as a value."""

from wire.version import PROTOCOL_VERSION, ProtocolVersion


def test_versions_read_as_major_and_minor() -> None:
    assert str(ProtocolVersion(2, 13)) == "2.13"


def test_a_version_travels_as_a_pair_of_integers() -> None:
    assert tuple(PROTOCOL_VERSION) == (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
    assert all(type(part) is int and part >= 0 for part in PROTOCOL_VERSION)
