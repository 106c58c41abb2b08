"""The scripts: what shellcheck says of them, what they refuse, and the keys that the containers start with."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.clients.enrolment import read_entries
from edge_client.config import load
from edge_client.keys import SECRET_FILE
from wire.exit_codes import ExitCode
from wire.sockets.keys import make_pair, read_secret, write_secret

ROOT = Path(__file__).parents[2]
INSTALL, MAKE_KEYS = ROOT / "deploy" / "install.sh", ROOT / "deploy" / "docker" / "make-keys.sh"


def run(script: Path, *arguments: str | Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = ["sh", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize("script", [INSTALL, MAKE_KEYS], ids=lambda script: script.name)
def test_shellcheck_finds_no_fault(script: Path) -> None:
    tool = shutil.which("shellcheck")
    if tool is None:
        pytest.skip("shellcheck is not installed")
    checked = subprocess.run([tool, str(script)], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", ["docker/Dockerfile", "jetson/Dockerfile"])
def test_hadolint_finds_no_fault(dockerfile: str) -> None:
    tool = shutil.which("hadolint")
    if tool is None:
        pytest.skip("hadolint is not installed")
    command = [tool, "--failure-threshold", "warning", str(ROOT / "deploy" / dockerfile)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("arguments", [[], ["clinet"], ["client", "bench-01"], ["--uninstall", "--purge", "now"]])
def test_what_cannot_be_meant_installs_nothing(arguments: list[str]) -> None:
    done = run(INSTALL, *arguments)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert done.stderr.startswith("usage: install.sh ")


@pytest.fixture
def commands(tmp_path: Path) -> str:
    """Put our two commands into the search path, as an installation does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, package in (("coordinator", "coordinator"), ("edge-client", "edge_client")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {package} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_containers_start_with_keys_of_their_own_made_once(tmp_path: Path, commands: str) -> None:
    server, client = tmp_path / "coordinator", tmp_path / "client-00"
    for folder in (server, client):
        folder.mkdir()
    listed, secret = server / "coordinator-keys" / "clients.toml", client / SECRET_FILE
    seen = []
    for _ in range(2):
        done = run(MAKE_KEYS, server, "coordinator:7071", client, path=commands)
        assert (done.returncode, done.stderr) == (0, "")
        seen.append((listed.read_text(), secret.read_text()))
    assert seen[0] == seen[1]
    config = load(client / "client.toml", [])
    assert (config.client.id, config.client.key, config.data.index) == ("client-00", SECRET_FILE, 0)
    assert config.coordinator.public_key == read_secret(server / "coordinator-keys" / "coordinator.secret").public
    assert read_entries(listed)["client-00"].public_key == read_secret(secret).public
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_containers_whose_coordinator_has_lost_its_list_are_given_nothing(tmp_path: Path, commands: str) -> None:
    server, client = tmp_path / "coordinator", tmp_path / "client-00"
    client.mkdir()
    write_secret(server / "coordinator-keys" / "coordinator.secret", make_pair().secret)
    done = run(MAKE_KEYS, server, "coordinator:7071", client, path=commands)
    assert done.returncode == ExitCode.BAD_CONFIG
    assert "clients.toml: expected the enrolment list, which is gone" in done.stderr
    assert not list(client.iterdir())
