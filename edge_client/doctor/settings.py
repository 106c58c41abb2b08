"""What `client.toml` names on this device: its keys, its samples, what it computes on."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from edge_client.config import ClientConfig
from edge_client.doctor.finding import Finding, found
from edge_client.keys import Keys
from models.nets.onnx_session import OnnxSession
from models.spec import ConfigError
from wire.exit_codes import ExitCode


def examine_settings(config: ClientConfig, keys: Keys | ConfigError | None) -> Iterator[Finding]:
    """Yield what can be said of a client's settings; of its keys, what came of loading them."""
    yield _keys(keys)
    yield found("data", lambda: _data(config))
    yield found("device", lambda: _device(config))
    if config.model.path:
        yield found("backbone", lambda: _backbone(config))
    if config.schedule.hook:
        yield found("hook", lambda: _hook(config.schedule.hook))


def _keys(keys: Keys | ConfigError | None) -> Finding:
    if isinstance(keys, ConfigError):
        return Finding("keys", "cannot be used", str(keys), ExitCode.BAD_CONFIG)
    if keys is None:
        return Finding("keys", "none needed: [coordinator] security = 'none'")
    return Finding("keys", f"this device's public key is {keys.own.public}")


def _data(config: ClientConfig) -> Finding | str:
    source, root = config.data.source, config.data.root
    if source == "run":
        return f"part {config.data.index} of the run's own"
    if not root:
        return source
    path = Path(root).expanduser()
    try:
        with os.scandir(path) if path.is_dir() else path.open("rb"):
            return f"{source}: {path}"
    except FileNotFoundError:
        what = "does not exist"
    except OSError as error:
        what = f"may not be read ({error.strerror})"
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


def _backbone(config: ClientConfig) -> Finding | str:
    model = config.model
    try:
        session = OnnxSession(
            Path(model.path).expanduser(), model.provider or "auto", may_fall_back=model.provider_fallback
        )
    except ConfigError as error:
        return Finding("backbone", "cannot be used", f"[model] path: {error}", ExitCode.BAD_CONFIG)
    return f"{model.path}, computed by {session.provider}"


def _hook(hook: str) -> Finding | str:
    command = shlex.split(hook)[0]
    if shutil.which(command) is not None:
        return hook
    advice = "install it, or correct [schedule] hook; until then this device does not train"
    return Finding("hook", f"{command} is no command here", advice, ExitCode.BAD_CONFIG)
