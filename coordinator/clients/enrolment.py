"""Who may take part: each client's public key, in a file that a coordinator rereads when it changes.

    [client-00]
    public_key = "5f2b..."
    expires = "2027-01-31"      # from the start of this day on it is refused; "": never
    revoked = false

A revoked entry stays, so that its key is refused by name. A client has one key: the next one replaces it. So a list
with entries does not become empty: one that is gone or has none is a fault, and so is one that others may write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tomli_w

from coordinator.store.run_folder import write_whole
from coordinator.store.schema import refused
from models.settings import NAME_FORM, is_plain_name, read_toml
from models.spec import ConfigError
from wire.sockets.keys import KEY_FORM, OTHERS_WRITE, KeyFileError, is_key, see_barred

NOT_ENROLLED, REVOKED, EXPIRED = "not_enrolled", "revoked", "expired"

EXPIRES_FORM = "a day such as 2027-01-31, or a time such as 2027-01-31T12:00+01:00; without a zone it is UTC"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client's key."""

    public_key: str
    expires: str = ""
    revoked: bool = False


class Verdict(NamedTuple):
    """Whose key it is ("" if nobody's), and why it does not count ("" if it does): a code, and in words."""

    client: str
    code: str = ""
    reason: str = ""


class Enrolment:
    """The list; `judge` goes by the file as it is now."""

    def __init__(self, path: Path | None, allow_open: bool = False, clock: Callable[[], float] = time.time) -> None:
        """Read the file; without a path the list is empty.

        Raises:
            ConfigError: as of `read_entries`.
        """
        self._path = path
        self._allow_open = allow_open
        self._clock = clock
        self._seen = _version(path) if path is not None else None
        self._take(read_entries(path, allow_open) if path is not None else {})
        self.fault = self._fault_of_none()

    @classmethod
    def of(cls, public_keys: Mapping[str, str]) -> Enrolment:
        """Return a list that is in no file, and never changes."""
        made = cls(None)
        made._take({client: Entry(key) for client, key in public_keys.items()})
        return made

    def judge(self, key: str) -> Verdict:
        """Say whose a public key is and whether it counts, now."""
        self._reread()
        client = self._owners.get(key)
        if client is None:
            return Verdict("", NOT_ENROLLED, f"key {key[:12]}... is not enrolled")
        entry = self._entries[client]
        if entry.revoked:
            return Verdict(client, REVOKED, f"the key of {client} was revoked")
        if entry.expires and self._clock() >= expires_at(entry.expires):
            return Verdict(client, EXPIRED, f"the key of {client} has expired ({entry.expires})")
        return Verdict(client)

    def _reread(self) -> None:
        """Take the file as it is now; one that is no list, gone or open to others changes nothing, and is a `fault`."""
        if self._path is None or (version := _version(self._path)) == self._seen:
            return
        self._seen = version
        try:
            entries = read_entries(self._path, self._allow_open)
            if self._entries and not entries:
                expected = "expected an entry for each client, also for those that are to stay out (revoked = true)"
                raise ConfigError(f"{self._path}: {expected}, got none")
            self._take(entries)
            self.fault = self._fault_of_none()
        except ConfigError as error:
            self.fault = str(error)

    def _fault_of_none(self) -> str:
        has_nobody = self._path is not None and not self._entries
        return f"{self._path}: nobody is enrolled; `coordinator keys enroll` does that" if has_nobody else ""

    def _take(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._owners = {entry.public_key: client for client, entry in entries.items()}


def read_entries(path: Path, allow_open: bool = False) -> dict[str, Entry]:
    """Return a list's entries by client id.

    Raises:
        ConfigError: it is no enrolment list, is gone, or others may write it or its folder (unless `allow_open`).
    """
    _see_usable(path, allow_open)
    entries = {client: _entry(path, client, table) for client, table in read_toml(path).items()}
    owners: dict[str, str] = {}
    for client, entry in entries.items():
        other = owners.setdefault(entry.public_key, client)
        if other != client:
            raise ConfigError(f"{path} [{client}]: expected a key of its own, got that of {other}")
    return entries


def write_entries(path: Path, entries: Mapping[str, Entry]) -> None:
    """Replace a list, whole or not at all; it and a folder made for it are their owner's alone to write."""
    for client, entry in entries.items():
        _check(path, client, entry)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(path, [tomli_w.dumps(msgspec.to_builtins(entries)).encode()], mode=0o644)
    except OSError as error:
        raise refused(f"{path}: expected to write the enrolment list, got {error.strerror}", error) from None


def expires_at(text: str) -> float:
    """Return the moment, in seconds since 1970, that a text names.

    Raises:
        ValueError: it names none.
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def see_folder(folder: Path, allow_open: bool) -> None:
    """Raise ConfigError for a folder in which others than its owner may put another list (unless `allow_open`)."""
    try:
        see_barred(
            folder, 0 if allow_open else OTHERS_WRITE, "a folder that its owner alone may write in", "chmod go-w"
        )
    except KeyFileError as error:
        raise ConfigError(str(error)) from None


def _see_usable(path: Path, allow_open: bool) -> None:
    """Raise ConfigError for a list that is not there, or that others than its owner may write or replace."""
    barred = 0 if allow_open else OTHERS_WRITE
    try:
        see_barred(path, barred, "an enrolment list that its owner alone may write", "chmod go-w")
        see_folder(path.parent, allow_open)
    except KeyFileError as error:
        raise ConfigError(str(error)) from None
    except FileNotFoundError:
        anew = f"to enroll every client anew, begin an empty one: install -m 644 /dev/null {path}"
        advice = f"put it back from a backup, or, {anew}"
        raise ConfigError(f"{path}: expected the enrolment list, which is gone; {advice}") from None
    except OSError as error:
        raise ConfigError(f"{path}: expected to read the enrolment list, got {error.strerror}") from None


def _entry(path: Path, client: str, table: Mapping[str, Any]) -> Entry:
    try:
        entry = msgspec.convert(table, Entry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} [{client}]: {error}") from None
    _check(path, client, entry)
    return entry


def _check(path: Path, client: str, entry: Entry) -> None:
    where = f"{path.name} [{client}]"
    if not is_plain_name(client):
        raise ConfigError(f"{where}: expected a client id of {NAME_FORM}")
    if not is_key(entry.public_key):
        raise ConfigError(f"{where}: public_key = {entry.public_key!r}: expected {KEY_FORM}")
    if entry.expires:
        try:
            expires_at(entry.expires)
        except ValueError:
            raise ConfigError(f"{where}: expires = {entry.expires!r}: expected {EXPIRES_FORM}") from None


def _version(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file's content and with who may write it, None if there is none."""
    try:
        found, folder = path.stat(), path.parent.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, folder.st_mode
