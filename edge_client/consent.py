"""What a run may ask of this device: code, files and downloads, as far as the device's own settings allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_client.config import ClientConfig
from models.data import WHATEVER_IS_THERE
from models.spec import ConfigError, RunSpec


def check_consent(spec: RunSpec, settings: ClientConfig, net: str) -> None:
    """Refuse a run that wants more than this device allows; `net` is the one that the device would have in it.

    Raises:
        ConfigError: the run names code outside the installed package, a file, or a download that is not allowed.
    """
    _check_code(spec, settings, net)
    allowed = settings.client.paths
    for key, path in _paths(spec, settings):
        if not _is_within(path, allowed):
            advice = "name it there, or a folder above it, if runs may read it"
            raise ConfigError(
                f"the run wants {key} = {path!r}, which [client] paths = {allowed} does not allow; {advice}"
            )
    if spec.data.download and settings.data.source == "run" and not settings.client.downloads:
        raise ConfigError("the run wants [data] download = true, which [client] downloads = false does not allow")


def _check_code(spec: RunSpec, settings: ClientConfig, net: str) -> None:
    allowed = settings.client.plugins
    of_data = (spec.data.dataset, spec.data.partition) if settings.data.source == "run" else ()
    for name in (spec.method, *of_data, net):
        if ":" in name and name not in allowed:
            wants = "[model] name wants" if name == settings.model.name else "the run wants"
            raise ConfigError(f"{wants} {name!r}, which [client] plugins = {allowed} does not allow")


def _paths(spec: RunSpec, settings: ClientConfig) -> Iterator[tuple[str, str]]:
    """Yield the paths on this device that the run names and the device has none of its own for, by their keys."""
    data, model = spec.data, spec.model
    named = [("[model] weights", model.weights), ("[model] path", "" if settings.model.path else model.path)]
    if settings.data.source == "run":
        here = "." if data.dataset in WHATEVER_IS_THERE else ""
        named += [("[data] root", data.root or here), ("[data] indices", data.indices)]
    return ((key, path) for key, path in named if path)


def _is_within(path: str, allowed: Sequence[str]) -> bool:
    """Say whether a path is one of these or below one, wherever symbolic links lead; what cannot be a path is not."""
    try:
        return any(_resolved(path).is_relative_to(_resolved(folder)) for folder in allowed)
    except (OSError, RuntimeError, ValueError):
        return False


def _resolved(path: str) -> Path:
    return Path(path).expanduser().resolve()
