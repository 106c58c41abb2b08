"""The run folder: where everything that a run leaves behind stands, and how its small files are written."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import msgspec
import numpy as np

from coordinator.config import RunConfig, read
from coordinator.store.schema import is_full, refused
from models import methods
from models.checkpoint import sync_folder
from models.settings import NAME_FORM, Tables, is_plain_name, read_toml
from models.spec import ConfigError

KindT = TypeVar("KindT")


class _RunTold(msgspec.Struct):
    num_rounds: int
    seed: int


class _MethodTold(msgspec.Struct):
    name: str


class _Told(msgspec.Struct):
    """What every `config.toml` of a run says."""

    run: _RunTold
    method: _MethodTold


class _Accuracy(msgspec.Struct):
    rule: str = ""
    best: float | None = None
    last: float | None = None
    per_client: dict[str, float | None] = {}


class _Figures(msgspec.Struct):
    """What every `summary.json` says, and whoever reads one goes by; what has a default is not in all of them."""

    run_id: str
    mode: str
    num_rounds: int
    rounds_completed: int
    num_clients: int
    accuracy: _Accuracy
    accuracy_by_rule: dict[str, dict[str, Any]]
    uplink: dict[str, int | None]
    downlink: dict[str, int | None]
    round_s: dict[str, float | None]
    coordination_s: dict[str, float | None]
    memory: dict[str, int | None]
    updates: dict[str, int]
    rounds_failed: int = 0
    time_s: dict[str, float | None] = {}
    versions: dict[str, str] = {}
    null_reasons: dict[str, str] = {}


class Samples(TypedDict):
    """How many samples of each class a client trains and tests with."""

    train: list[int]
    test: list[int]


class Histogram(msgspec.Struct, frozen=True):
    """The label map, and the samples of each client."""

    classes: list[str] = []
    clients: dict[str, Samples] = {}


class RunFolder:
    """The paths of one run; make one with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, config: RunConfig, now_text: str) -> RunFolder:
        """Make the folder of a new run, with its `config.toml`, under a run id that no other folder has.

        Args:
            config: the run; `[run] dir` is taken from the current folder.
            now_text: local time as `YYYYmmdd-HHMMSS`.

        Raises:
            ConfigError: the folder cannot be made.
        """
        name = config.run.name or methods.find(config.method_name).name
        if not is_plain_name(name):
            raise ConfigError(f"[run] name = {name!r}: expected {NAME_FORM}")
        folder = cls(_make_unique(Path(config.run.dir).expanduser(), f"{name}-{now_text}"))
        try:
            folder.write_config(config)
        except OSError as error:
            folder.discard()
            told = f"[run] dir = {config.run.dir!r}: expected a folder to write to, got {error.strerror}"
            raise refused(told, error) from None
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return an existing run folder.

        Raises:
            ConfigError: there is none at this path.
        """
        folder = cls(path)
        if not folder.config_path.is_file():
            raise ConfigError(f"{path}: expected a run folder with a config.toml, got {_what_is_at(path)}")
        return folder

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.resolve().name

    @property
    def config_path(self) -> Path:
        """The effective config."""
        return self.path / "config.toml"

    @property
    def store_path(self) -> Path:
        """The SQLite file of everything that must survive a crash."""
        return self.path / "store.sqlite"

    @property
    def metrics_path(self) -> Path:
        """One JSON line per client and exchange."""
        return self.path / "metrics.jsonl"

    @property
    def histogram_path(self) -> Path:
        """How many samples of each class each client has."""
        return self.path / "histogram.json"

    @property
    def summary_path(self) -> Path:
        """The run's figures."""
        return self.path / "summary.json"

    @property
    def page_path(self) -> Path:
        """The run's report."""
        return self.path / "report.html"

    @property
    def indices_path(self) -> Path:
        """Which samples of the run's data set each client was given."""
        return self.path / "indices.npz"

    @property
    def global_path(self) -> Path:
        """The global arrays after the last round."""
        return self.path / "global.safetensors"

    @property
    def clients_path(self) -> Path:
        """Where the clients' own folders are."""
        return self.path / "clients"

    @property
    def samples_path(self) -> Path:
        """The data set, while several processes of a simulation read it."""
        return self.path / "samples"

    @property
    def log_path(self) -> Path:
        """What the run said, line by line."""
        return self.path / "log.txt"

    def how_to_go_on(self, mode: str) -> str:
        """Say which command goes on with the run, started by that of this mode."""
        return f"to go on: coordinator {mode} --resume {shlex.quote(str(self.path))}"

    def client_folder(self, client: str) -> Path:
        """Return the folder of one client, which is made if it is missing.

        Raises:
            ConfigError: the id cannot name a folder.
        """
        if not is_plain_name(client):
            raise ConfigError(f"client id {client!r}: expected {NAME_FORM}")
        folder = self.clients_path / client
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def discard(self) -> bool:
        """Remove the folder again if nothing has happened in it, as the run could not be started; say whether it is."""
        if not self.metrics_path.exists() or not self.metrics_path.stat().st_size:
            shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()

    def write_config(self, config: RunConfig) -> None:
        """Write the effective config, whole or not at all."""
        write_whole(self.config_path, [config.to_toml().encode()])

    def read_config(self) -> RunConfig:
        """Return the effective config.

        Raises:
            ConfigError: it is not whole, or no config.
        """
        return read(self.read_tables(), (), self.config_path.name)

    def read_tables(self) -> Tables:
        """Return the effective config as it stands in its file, unchecked but for what tells of every run.

        Raises:
            ConfigError: it cannot be read, or is not whole.
        """
        tables = read_toml(self.config_path)
        try:
            msgspec.convert(tables, _Told)
        except msgspec.ValidationError as error:
            told = f"expected all settings of the run, as they were when it began: {error}; put the file back"
            raise ConfigError(f"{self.config_path}: {told}") from None
        return tables

    def write_metrics(self, lines: Iterable[str]) -> None:
        """Write the lines of the run's accounts, whole or not at all."""
        write_whole(self.metrics_path, (f"{line}\n".encode() for line in lines))

    def write_histogram(self, content: Mapping[str, Any]) -> bool:
        """Write the label map and the samples of each client; return whether there was room for it."""
        try:
            write_whole(self.histogram_path, [json.dumps(content, indent=1).encode(), b"\n"])
        except OSError as error:
            if not is_full(error):
                raise
            return False
        return True

    def read_histogram(self) -> Histogram:
        """Return the label map and the samples of each client, nothing if no client has announced itself.

        Raises:
            ConfigError: the file is damaged.
        """
        try:
            return read_json(self.histogram_path, Histogram, "the samples of each client")
        except FileNotFoundError:
            return Histogram()

    def write_indices(self, rows: Mapping[str, np.ndarray]) -> None:
        """Write which samples each client is given, as the `indices` partition reads it, whole or not at all."""
        content = io.BytesIO()
        np.savez_compressed(content, **rows)  # type: ignore[arg-type]
        write_whole(self.indices_path, [content.getvalue()])

    def take_summary(self) -> dict[str, Any]:
        """Return the run's figures and remove them: the run goes on."""
        found = self.read_summary()
        self.summary_path.unlink(missing_ok=True)
        return found

    def read_summary(self) -> dict[str, Any]:
        """Return the run's figures, nothing if there are none: the run goes on, or it was killed.

        Raises:
            ConfigError: the file is damaged.
        """
        expected = "the figures of a run"
        try:
            content = read_json(self.summary_path, dict[str, Any], expected, "; delete it")
            msgspec.convert(content, _Figures)
        except FileNotFoundError:
            return {}
        except msgspec.ValidationError as error:
            raise ConfigError(f"{self.summary_path}: expected {expected}: {error}; delete it") from None
        return content

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the run's figures, whole or not at all; one that is not finite becomes null."""
        write_whole(self.summary_path, [msgspec.json.format(msgspec.json.encode(summary), indent=2), b"\n"])


def run_token(run_id: str) -> int:
    """Return the number that stands for a run in its messages.

    It has two bytes of 1 to 127 each, which no list in a header begins with: so no run's headers are larger or slower
    to check than another's.
    """
    high, low = divmod(zlib.crc32(run_id.encode()) % 127**2, 127)
    return 256 * (high + 1) + low + 1


def _make_unique(parent: Path, stem: str) -> Path:
    for _ in range(100):
        path = parent / f"{stem}-{os.urandom(2).hex()}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except (OSError, ValueError) as error:
            expected = f"expected a folder to write to, got {getattr(error, 'strerror', None) or error}"
            raise refused(f"[run] dir = {str(parent)!r}: {expected}", error) from None
        return path
    raise ConfigError(f"[run] dir = {str(parent)!r}: no free run id {stem}-????")


def read_json(path: Path, kind: type[KindT], expected: str, advice: str = "") -> KindT:
    """Return what a JSON file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigError: it cannot be read or holds something else; the text names it, and ends in the advice.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: expected {expected}, got {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError
        raise ConfigError(f"{path}: expected {expected}: {error}{advice}") from None


def _what_is_at(path: Path) -> str:
    if path.is_dir():
        return "a folder without one"
    return "a file" if path.exists() else "nothing"


def write_whole(path: Path, content: Iterable[bytes], mode: int = 0o666) -> None:
    """Replace a file so that a crash leaves the old or the new one, both on disk; the umask takes from `mode`."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(path)  # a disk that is full does not say where
        raise
    draft.replace(path)
    sync_folder(path.parent)
