"""The keys of a test's run: those of its coordinator, and of the clients that are enrolled with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from coordinator.clients import keys
from coordinator.clients.enrolment import Entry, write_entries
from wire.sockets.keys import KeyPair, make_pair, read_secret, write_secret


class Keyring:
    """Lies where a coordinator that is started in `folder` looks for its keys."""

    def __init__(self, folder: Path, clients: Iterable[str]) -> None:
        self.folder = folder / "coordinator-keys"
        keys.init(self.folder)
        self.coordinator = read_secret(self.folder / keys.SECRET_FILE)
        self.pairs: dict[str, KeyPair] = {client: make_pair() for client in clients}
        self._secrets = folder / "client-keys"
        self._enroll({client: Entry(pair.public) for client, pair in self.pairs.items()})

    def secret_file(self, client: str) -> Path:
        """Return a file with the secret key of a client."""
        path = self._secrets / f"{client}.secret"
        if not path.exists():
            write_secret(path, self.pairs[client].secret)
        return path

    def of_client(self, client: str) -> Mapping[str, Mapping[str, str]]:
        """Return what the config of a client says of keys."""
        return {
            "client": {"key": str(self.secret_file(client))},
            "coordinator": {"public_key": self.coordinator.public},
        }

    def _enroll(self, entries: Mapping[str, Entry]) -> None:
        write_entries(self.folder / keys.CLIENTS_FILE, entries)
