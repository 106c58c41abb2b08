"""The versions of what a run was made with; looked up in the aggregator, as it takes 2 MB to ask."""

from __future__ import annotations

import platform
from importlib import metadata

from wire.version import PROTOCOL_VERSION

PACKAGES = ("protoedge", "numpy", "pyzmq", "msgpack", "msgspec", "torch")
"""The packages whose versions a summary names."""


def installed_versions() -> dict[str, str]:
    """Return the versions of Python, the protocol and those of `PACKAGES` that are installed here."""
    versions = {"python": platform.python_version(), "protocol": str(PROTOCOL_VERSION)}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
