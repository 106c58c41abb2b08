"""The coordinator's keys: its own, in a file, and those of its clients; and the commands that keep both.

Both are in one folder, `[transport] keys`: `coordinator.secret` and `clients.toml` (see `enrolment`). The list is made
first, so that one which is missing beside a secret key was lost.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from coordinator.clients.enrolment import Enrolment, Entry, expires_at, read_entries, see_folder, write_entries
from coordinator.config import TransportSection
from models.spec import ConfigError, nearest
from wire.sockets.keys import KeyFileError, KeyPair, keep_secret, make_pair, read_secret

SECRET_FILE = "coordinator.secret"
CLIENTS_FILE = "clients.toml"

LOCK_WAIT_S = 10.0
"""How long a command that changes the list waits for another one that does."""


class Keys(NamedTuple):
    """What an encrypted port needs: the coordinator's own pair, and who may come."""

    own: KeyPair
    enrolment: Enrolment


def load_keys(transport: TransportSection, allow_open: bool) -> Keys | None:
    """Return the keys of a run, None if its connections are not to be encrypted.

    Raises:
        ConfigError: there are none, or they cannot be used.
    """
    if not transport.is_encrypted:
        return None
    folder = Path(transport.keys).expanduser()
    try:
        own = read_secret(folder / SECRET_FILE, allow_open)
    except FileNotFoundError:
        raise _no_keys(folder) from None
    except KeyFileError as error:
        raise ConfigError(str(error)) from None
    return Keys(own, Enrolment(folder / CLIENTS_FILE, allow_open))


class ThrowAwayKeys(NamedTuple):
    """Keys that are in no file: those of a coordinator, and the pair of each of its clients."""

    coordinator: Keys
    clients: dict[str, KeyPair]


def throw_away_keys(clients: Iterable[str]) -> ThrowAwayKeys:
    """Return new keys for a coordinator and these clients."""
    pairs = {client: make_pair() for client in clients}
    enrolment = Enrolment.of({client: pair.public for client, pair in pairs.items()})
    return ThrowAwayKeys(Keys(make_pair(), enrolment), pairs)


def init(folder: Path, allow_open: bool = False) -> str:
    """Make the coordinator's keys unless there are some; return what `client.toml` must say of them.

    Raises:
        ConfigError: those that are there cannot be used, or have lost their list; or none can be made.
    """
    path, has_keys = folder / CLIENTS_FILE, _has_keys(folder)
    if not has_keys and not path.exists():
        if folder.exists():
            see_folder(folder, allow_open)
        write_entries(path, {})
    is_lost = bool(read_entries(path, allow_open)) and not has_keys
    try:
        own = keep_secret(folder / SECRET_FILE, allow_open)
    except KeyFileError as error:
        raise ConfigError(str(error)) from error
    told = "# a new key, as the one before is gone: every client that was enrolled before needs it\n" if is_lost else ""
    return f'{told}[coordinator]\npublic_key = "{own.public}"'


def enroll(folder: Path, client: str, public_key: str, expires: str, now_s: float, allow_open: bool = False) -> str:
    """Let a client in by this key, and by no other that it had; return what was done.

    Raises:
        ConfigError: the key is another client's, the list cannot be used or written, or the key's end has passed.
    """
    path = _list_in(folder)
    with _changing(path):
        entries = read_entries(path, allow_open)
        owner = next((other for other, entry in entries.items() if entry.public_key == public_key), client)
        if owner != client:
            raise ConfigError(f"{path}: expected a key that nobody has, got that of {owner}")
        _check_end(expires, now_s)
        write_entries(path, {**entries, client: Entry(public_key, expires)})
    replaced = client in entries and entries[client].public_key != public_key
    return f"{client} is enrolled" + (" with a new key" if replaced else "") + (f" until {expires}" if expires else "")


def revoke(folder: Path, client: str, allow_open: bool = False) -> str:
    """Let a client in no longer; return what was done.

    Raises:
        ConfigError: there is no such client, or the list cannot be used or written.
    """
    path = _list_in(folder)
    with _changing(path):
        entries = read_entries(path, allow_open)
        if client not in entries:
            raise ConfigError(f"{path}: unknown client {client!r}; {nearest(client, entries)}")
        write_entries(path, {**entries, client: msgspec.structs.replace(entries[client], revoked=True)})
    return f"{client} is revoked"


def listing(folder: Path, now_s: float, allow_open: bool = False) -> str:
    """Return a line for each client: its key, and whether that counts.

    Raises:
        ConfigError: the list cannot be used.
    """
    entries = read_entries(_list_in(folder), allow_open)
    if not entries:
        return "nobody is enrolled"
    width = max(map(len, entries))
    return "\n".join(f"{name:<{width}}  {entry.public_key}  {_state(entry, now_s)}" for name, entry in entries.items())


def _list_in(folder: Path) -> Path:
    """Return where the list of the coordinator is whose keys are in a folder."""
    if not _has_keys(folder):
        raise _no_keys(folder)
    return folder / CLIENTS_FILE


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Keep other commands from changing a list; what they wrote between our reading and writing it would be lost.

    The folder is what is locked: a file for it would be its maker's, and keep the owner out once root has made it.
    Where a file system locks no folders, as NFS does not, commands are on their own.
    """
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path.parent}: expected to read the folder of the list, got {error.strerror}") from None
    try:
        _wait_for(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path) -> None:
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                told = f"another command has been changing the list for {LOCK_WAIT_S:g} s; end it and try again"
                raise ConfigError(f"{path}: {told}") from None
            time.sleep(0.02)
        except OSError as error:
            if error.errno in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP):
                return
            raise


def _has_keys(folder: Path) -> bool:
    try:
        (folder / SECRET_FILE).stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{folder}: expected a folder for the coordinator's keys, got {error.strerror}") from None
    return True


def _no_keys(folder: Path) -> ConfigError:
    told = f"expected the coordinator's keys there, and there are none in {folder.absolute()}"
    advice = "start the command where they are, or, for a new coordinator, `coordinator keys init` makes some"
    return ConfigError(f"[transport] keys = {str(folder)!r}: {told}; {advice}")


def _check_end(expires: str, now_s: float) -> None:
    """Refuse a key's end that has passed; one that is no moment is refused when it is written."""
    with contextlib.suppress(ValueError):
        if expires and now_s >= expires_at(expires):
            raise ConfigError(f"--expires {expires}: expected a day or time to come, got one that has passed")


def _state(entry: Entry, now_s: float) -> str:
    if entry.revoked:
        return "revoked"
    if not entry.expires:
        return "enrolled"
    return f"expired {entry.expires}" if now_s >= expires_at(entry.expires) else f"enrolled until {entry.expires}"
