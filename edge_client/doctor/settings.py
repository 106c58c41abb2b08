"""What `client.toml` names on this device: its keys, its samples, what it computes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from edge_client.config import ClientConfig
from edge_client.doctor.finding import Finding, found
from edge_client.keys import Keys
from models.spec import ConfigError
from wire.exit_codes import ExitCode


def examine_settings(config: ClientConfig, keys: Keys | ConfigError | None) -> Iterator[Finding]:
    """Yield what can be said of a client's settings; of its keys, what came of loading them."""
    yield _keys(keys)
    yield found("data", lambda: _data(config))
    yield found("device", lambda: _device(config))


def _keys(keys: Keys | ConfigError | None) -> Finding:
    if isinstance(keys, ConfigError):
        return Finding("keys", "cannot be used", str(keys), ExitCode.BAD_CONFIG)
    if keys is None:
        return Finding("keys", "none needed: [coordinator] security = 'none'")
    return Finding("keys", f"this device's {keys.own.public}, in a file that its owner alone may use")


def _data(config: ClientConfig) -> Finding | str:
    source, root = config.data.source, config.data.root
    if source == "run":
        return f"part {config.data.index} of the run's own"
    path = Path(root).expanduser()
    if os.access(path, os.R_OK):
        return f"{source}: {path}"
    what = "may not be read" if path.exists() else "does not exist"
    advice = f"put the samples there, for user {os.geteuid()} to read, or correct [data] root"
    return Finding("data", f"{path.absolute()} {what}", advice, ExitCode.BAD_CONFIG)


def _device(config: ClientConfig) -> Finding | str:
    wanted = config.training.device
    if wanted != "cuda":
        return wanted
    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return wanted
    advice = "install a torch that is made for this device's GPU, or set [training] device = 'auto'"
    return Finding("device", "cuda, which torch does not find here", advice, ExitCode.BAD_CONFIG)
