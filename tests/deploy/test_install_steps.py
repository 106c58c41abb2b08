"""The install script's own steps, in folders of a test: what it writes of its arguments, and what once more mends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from edge_client.config import load
from models.settings import read_toml
from wire.exit_codes import ExitCode

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "deploy" / "install.sh"
KEY, OTHER_KEY = "5" * 64, "6" * 64

STEPS = """
set -- {arguments}
role=$1
shift
if [ "$role" = client ]; then
    id=$1 address=$2 public_key=$3
    shift 3
fi
parse_options "$@"
here={deploy} prefix={folder} settings={folder}/etc state={folder} units={folder}/units
as_account() {{ "$@"; }}
is_booted() {{ false; }}
systemctl() {{ echo "$*" >>{folder}/systemctl; }}
"install_$role"
"""
"""What is done for some arguments behind the checks, without an account, packages and systemd."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the folders that a machine has, and the two commands of an installation."""
    for name in ("etc", "units", "bin"):
        (tmp_path / name).mkdir()
    for name, package in (("coordinator", "coordinator"), ("edge-client", "edge_client")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {package} "$@"\n')
        command.chmod(0o755)
    return tmp_path


def install(folder: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    functions = INSTALL.read_text().removesuffix('main "$@"\n')
    script = functions + STEPS.format(arguments=arguments, deploy=ROOT / "deploy", folder=folder)
    return subprocess.run(["sh", "-c", script, str(INSTALL)], capture_output=True, text=True, timeout=60, cwd=folder)


def enabled(folder: Path) -> list[str]:
    told = folder / "systemctl"
    return told.read_text().splitlines() if told.exists() else []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a|b", "host:7071", KEY], "ID: expected 1 to 64 letters"),
        (["bench\n", "host:7071", KEY], "ID: expected 1 to 64 letters"),
        (["bench", "7071", KEY], "ADDRESS: expected host:port"),
        (["bench", "host:0", KEY], "ADDRESS: expected host:port"),
        (["bench", "host:70710", KEY], "ADDRESS: expected host:port"),
        (["bench", "[::1]:7071", "0" * 64], "PUBLIC_KEY: expected the 64 characters"),
        (["bench", "host:7071", KEY[1:]], "PUBLIC_KEY: expected the 64 characters"),
        (["bench", "host:7071", KEY, "--index", "01"], "--index: expected 0, 1, 2 ..., got '01'"),
    ],
)
def test_arguments_that_no_client_would_take_are_refused_before_anything_is_done(
    arguments: list[str], told: str
) -> None:
    command = ["sh", str(INSTALL), "client", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert f"install.sh: {told}" in done.stderr


def test_a_client_is_set_up_as_its_arguments_say(folder: Path) -> None:
    done = install(folder, f"client bench-01 '[::1]:7071' {KEY} --index 3")
    assert (done.returncode, done.stderr) == (0, "")
    path = folder / "etc" / "client.toml"
    config = load(path, [])
    assert (config.client.id, config.client.dir) == ("bench-01", str(folder / "client-state"))
    assert (config.coordinator.address, config.coordinator.public_key) == ("[::1]:7071", KEY)
    assert config.data.index == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [child.name for child in path.parent.iterdir()] == [path.name]
    assert enabled(folder) == ["enable --quiet protoedge-client"]


def test_once_more_puts_right_what_is_given_and_nothing_else(folder: Path) -> None:
    install(folder, f"client bench-01 host:7071 {KEY} --index 3")
    path = folder / "etc" / "client.toml"
    path.write_text(path.read_text().replace("nice = 0 ", "nice = 7 "))
    path.chmod(0o600)
    lines = path.read_text().splitlines()
    done = install(folder, f"client bench-01 host:7072 {OTHER_KEY}")
    assert (done.returncode, done.stderr) == (0, "")
    assert f'{path}: address = "host:7072" from now on, it was "host:7071"' in done.stdout
    assert f'{path}: public_key = "{OTHER_KEY}" from now on, it was "{KEY}"' in done.stdout
    now = path.read_text().splitlines()
    changed = [line.split()[0] for line, before in zip(now, lines, strict=True) if line != before]
    assert changed == ["address", "public_key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = install(folder, f"client bench-01 host:7072 {OTHER_KEY} --index 3")
    assert f"{path} stays as it is" in again.stdout
    assert path.read_text().splitlines() == now


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("coordinator --index 1", "--index: only a client has a part of the run's data"),
        (f"client a host:7071 {KEY} --index ''", "--index: expected 0, 1, 2 ..., got ''"),
        ("coordinator --extras report,trian", "--extras: expected parts of 'train onnx "),
        (
            "coordinator --from /nowhere/at/all",
            "--from: expected a wheel, or a folder of the sources, got '/nowhere/at",
        ),
        ("coordinator --from ''", "--from: expected a wheel, or a folder of the sources, got ''"),
    ],
)
def test_what_cannot_be_installed_is_refused_by_name(arguments: str, told: str) -> None:
    done = subprocess.run(["sh", "-c", f"sh {INSTALL} {arguments}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert f"install.sh: {told}" in done.stderr


def test_the_parts_that_may_be_asked_for_are_those_of_the_project() -> None:
    known = next(line for line in INSTALL.read_text().splitlines() if line.startswith("known_extras="))
    project = read_toml(ROOT / "pyproject.toml")["project"]
    assert known == f"known_extras='{' '.join(project['optional-dependencies'])}'"


@pytest.mark.parametrize("source", ["", "source = 'run'\n", 'source = "run"  # index = 0\n'])
def test_settings_that_name_no_part_of_the_run_s_data_stay_and_are_told(folder: Path, source: str) -> None:
    path = folder / "etc" / "client.toml"
    text = f'[client]\nid = "a"\n[coordinator]\naddress="h:1"\npublic_key = "{KEY}"\n[data]\n{source}'
    path.write_text(text)
    done = install(folder, f"client bench-01 host:7071 {KEY}")
    assert done.returncode == 1
    assert f"{path}: expected one line with index = N, which part of the run's data the device has" in done.stderr
    assert path.read_text() == text
    own = path.with_name("own.toml")
    path.write_text(text.replace(source, "") + f'source = "folder"\nroot = "{own}"\n')
    assert install(folder, f"client bench-01 host:7071 {KEY}").returncode == 0


@pytest.mark.parametrize("index", ["", "index = 0\nindex = 1\n"])
def test_settings_in_which_a_value_has_no_place_stay_and_are_told(folder: Path, index: str) -> None:
    path = folder / "etc" / "client.toml"
    text = f'[client]\nid = "a"\n[coordinator]\naddress="h:1"\npublic_key = "{KEY}"\n[data]\n{index}'
    path.write_text(text)
    done = install(folder, f"client bench-01 host:7071 {KEY} --index 2")
    assert done.returncode == 1
    assert f"{path}: expected one line with index = 2: write it there" in done.stderr
    assert path.read_text() == text
    assert enabled(folder) == []


ENVIRONMENT = """
parse_options --from {wheel}
prefix={folder}/prefix python={python}
ln() {{ :; }}
make_environment
"""


def make_wheel(folder: Path, content: str) -> Path:
    """Make a wheel of the project's name, always of one version, with one module in it."""
    path = folder / "protoedge-0.1.0-py3-none-any.whl"
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: protoedge\nVersion: 0.1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("told.py", content)
        for name, text in about.items():
            wheel.writestr(f"protoedge-0.1.0.dist-info/{name}", text)
    return path


@pytest.mark.slow
def test_once_more_installs_what_is_in_the_wheel_though_its_version_is_there(tmp_path: Path) -> None:
    functions = INSTALL.read_text().removesuffix('main "$@"\n')
    for content in ("told = 1\n", "told = 2\n"):
        names = {"wheel": make_wheel(tmp_path, content), "folder": tmp_path, "python": sys.executable}
        script = functions + ENVIRONMENT.format(**names)
        environment = {**os.environ, "PIP_NO_INDEX": "1"}
        done = subprocess.run(["sh", "-c", script, str(INSTALL)], capture_output=True, timeout=120, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        (installed,) = (tmp_path / "prefix").glob("lib/python*/site-packages/told.py")
        assert installed.read_text() == content


def test_an_empty_file_is_no_settings(folder: Path) -> None:
    for name in ("client.toml", "run.toml"):
        (folder / "etc" / name).touch()
    assert install(folder, f"client bench-01 host:7071 {KEY}").returncode == 0
    assert load(folder / "etc" / "client.toml", []).client.id == "bench-01"
    assert install(folder, "coordinator").returncode == 0
    assert f'dir = "{folder}/runs"' in (folder / "etc" / "run.toml").read_text()


@pytest.mark.parametrize(
    ("role", "name", "wrong"),
    [
        (f"client bench-01 host:7071 {KEY}", "client.toml", ("nice = 0 ", "nice = 70 ")),
        ("coordinator", "run.toml", ("num_rounds = ", "num_rounds = -")),
    ],
)
def test_a_unit_is_not_enabled_while_the_settings_are_bad(
    folder: Path, role: str, name: str, wrong: tuple[str, str]
) -> None:
    (folder / "etc" / name).write_text((ROOT / "deploy" / "examples" / name).read_text().replace(*wrong))
    done = install(folder, role)
    assert done.returncode == ExitCode.BAD_CONFIG
    assert name in done.stderr
    assert enabled(folder) == []
    (folder / "etc" / name).unlink()
    assert install(folder, role).returncode == 0
    assert enabled(folder) == [f"enable --quiet protoedge-{role.split()[0]}"]
