"""Keys: pairs for CURVE, as text, and the files that keep secret ones.

A key is 32 bytes, not all of them 0. It is written as 64 hexadecimal characters, which need no quotes in a shell or a
config.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import NamedTuple

from wire.sockets.new_file import write_new

_KEY = re.compile("(?!0{64})[0-9a-f]{64}")
KEY_FORM = "64 hexadecimal characters, in lower case and not all of them 0"

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""What nobody but its owner may do with a secret key file, or a private folder."""

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""What nobody but its owner may do with what says whose keys count, and with the folder of that."""

EXCEPTION = ", or allow it with --allow-open-keys"
"""What the commands that use keys can be told."""

_ANOTHER = (
    "put it back from a backup, or remove the file and run `keys init`, which makes a new key; "
    "the other end has to be told that one"
)


class KeyFileError(Exception):
    """A key file that cannot be used; the text names it, the cause and what to do."""


class KeyPair(NamedTuple):
    """One end's keys; the secret one is never shown."""

    public: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


def is_key(text: str) -> bool:
    """Say whether a text has the form of a key."""
    return _KEY.fullmatch(text) is not None


def make_pair() -> KeyPair:
    """Return a pair that nobody else has."""
    import zmq  # not needed by a trainer, which reads the same settings
    from zmq.utils import z85

    return KeyPair(*(z85.decode(key).hex() for key in zmq.curve_keypair()))


def pair_of(secret: str) -> KeyPair:
    """Return the pair with this secret key."""
    import zmq
    from zmq.utils import z85

    public = zmq.curve_public(z85.encode(bytes.fromhex(secret)))
    return KeyPair(z85.decode(public).hex(), secret)


def write_secret(path: Path, secret: str) -> None:
    """Write a secret key to a new file that its owner alone may read, whole or not at all.

    Raises:
        KeyFileError: there is one already, or it cannot be written.
    """
    try:
        write_new(path, f"{secret}\n".encode("ascii"))
    except OSError as error:
        raise KeyFileError(f"{path}: expected to make a key file, got {error.strerror}") from error


def read_secret(path: Path, allow_open: bool = False) -> KeyPair:
    """Return the pair whose secret key is in a file.

    Raises:
        FileNotFoundError: there is no such file.
        KeyFileError: others may read or write it (unless `allow_open`), it cannot be read, or it holds no key.
    """
    try:
        if not allow_open:
            see_barred(path, OTHERS, "a key file that its owner alone may use", "chmod 600")
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileError(f"{path}: expected a readable key file, got {error.strerror}") from None
    if not is_key(text):
        found = "something else" if text else "an empty file"
        raise KeyFileError(f"{path}: expected a secret key, {KEY_FORM}, got {found}; {_ANOTHER}")
    return pair_of(text)


def see_barred(path: Path, barred: int, expected: str, remedy: str, exception: str = EXCEPTION) -> None:
    """See that none but the owner of a file or folder may do with it what is barred.

    Raises:
        OSError: it cannot be looked at.
        KeyFileError: others may; the text says what was expected, with which command it is so, and what else helps.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & barred:
        raise KeyFileError(f"{path}: expected {expected}, got mode {mode:o}; {remedy} {path}{exception}")


def keep_secret(path: Path, allow_open: bool = False) -> KeyPair:
    """Return the pair whose secret key is in a file, which is made if it is missing.

    Raises:
        KeyFileError: as of `read_secret` and `write_secret`.
    """
    try:
        return read_secret(path, allow_open)
    except FileNotFoundError:
        own = make_pair()
        write_secret(path, own.secret)
        return own
