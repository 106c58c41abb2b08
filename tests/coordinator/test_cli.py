"""The command `coordinator`, as a process: exit codes, one clear line for an error, and never a traceback."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coordinator import cli
from coordinator.config import FREE_PORT, RunConfig, load
from coordinator.store.run_folder import RunFolder
from tests.coordinator.stores import stored_run
from wire.exit_codes import ExitCode
from wire.version import PROTOCOL_VERSION


def coordinator(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_exit_codes_are_those_of_the_contract() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "FINISHED": 0,
        "BAD_CONFIG": 2,
        "REFUSED": 3,
        "FAILED": 4,
        "INTERRUPTED": 5,
        "NO_SPACE": 6,
    }


def test_check_config_prints_the_effective_config(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[run]\nseed = 3\n")
    done = coordinator("check-config", "--config", path, "--set", "round.fraction=0.5")
    assert (done.returncode, done.stderr) == (ExitCode.FINISHED, "")
    path.write_text(done.stdout)
    assert load(path, []) == load(None, ["run.seed=3", "round.fraction=0.5"])


def test_check_config_tells_of_modules_that_are_not_here_and_runs_none(tmp_path: Path) -> None:
    path, (here, gone) = tmp_path / "run.toml", ("own_net:Net", "nope.net:Net")
    path.write_text(f'[model]\nname = "{here}"\nnames = ["{gone}"]\n')
    (tmp_path / "own_net.py").write_text("raise SystemExit(9)")
    done = coordinator("check-config", "--config", path)
    told = "there is no such module here; loopback, simulate and every device need it"
    assert (done.returncode, done.stderr) == (ExitCode.FINISHED, f"coordinator: [model] names = {gone!r}: {told}\n")


def test_check_config_tells_of_keys_that_nobody_uses(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set=data.root=/data", "--set=model.weights=/x", "--set=model.norm=group"]
    assert cli.main(["check-config", *settings, "--set=model.names=['cnn', 'resnet8']"]) == ExitCode.FINISHED
    assert capsys.readouterr().err.splitlines() == [
        "coordinator: [model] weights = '/x': not used by cnn or resnet8",
        "coordinator: [data] root = '/data': not used by digits",
    ]


@pytest.mark.parametrize("command", ["serve", "loopback", "check-config"])
def test_a_bad_config_is_one_line_and_exit_2(tmp_path: Path, command: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[round]\nfractoin = 1\n")
    done = coordinator(command, "--config", path)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_CONFIG, "")
    assert done.stderr == "coordinator: run.toml [round]: unknown key 'fractoin'; did you mean 'fraction'?\n"


@pytest.mark.parametrize("command", ["loopback", "simulate", "check-config"])
def test_settings_that_do_not_fit_each_other_are_one_line_and_leave_nothing(tmp_path: Path, command: str) -> None:
    settings = (f"run.dir={tmp_path}", "method.name=tinyproto-fp", "method.prototype_dim=51")
    done = coordinator(command, *(word for setting in settings for word in ("--set", setting)))
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (ExitCode.BAD_CONFIG, "", [])
    assert done.stderr == "coordinator: [method] prototype_dim = 51: expected at most [model] feature_dim = 50\n"


@pytest.mark.parametrize("args", [[], ["serve"], ["check-confg"], ["check-config", "--sett", "a.b=1"]])
def test_bad_arguments_are_exit_2(args: list[str]) -> None:
    done = coordinator(*args)
    assert done.returncode == ExitCode.BAD_CONFIG
    assert "coordinator" in done.stderr
    assert "Traceback" not in done.stderr


def test_methods_prints_the_table() -> None:
    done = coordinator("methods", "--format", "json")
    assert (done.returncode, done.stderr) == (ExitCode.FINISHED, "")
    assert any(row["default"] for row in json.loads(done.stdout))


def test_version_names_package_and_protocol() -> None:
    done = coordinator("--version")
    assert done.returncode == ExitCode.FINISHED
    assert done.stdout.startswith("protoedge ")
    assert done.stdout.endswith(f", protocol {PROTOCOL_VERSION}\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_before_the_daemon_is_up_ends_quietly(name: str) -> None:
    script = (
        "import os, signal, sys\nfrom coordinator import cli\n"
        f"cli._parser = lambda: os.kill(os.getpid(), signal.{name})\n"
        "sys.exit(cli.main(['methods']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.parametrize("args", [["methods"], ["check-config"], ["--version"]])
def test_a_reader_that_goes_away_is_no_traceback(args: list[str]) -> None:
    command = [sys.executable, "-m", "coordinator", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == ExitCode.FINISHED


APPS = (
    ("coordinator.app", "serve"),
    ("coordinator.loopback", "loopback"),
    ("coordinator.simulation.simulate", "simulate"),
)

Call = tuple[str, RunConfig, Path, Path | None, RunFolder | None]


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Put a recorder in the place of both apps, and let a test's `main` change nothing for the others."""
    calls: list[Call] = []

    def app(name: str) -> Any:
        def enter(
            config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None = None, *rest: Any
        ) -> int:
            assert rest in ((), (False,))
            calls.append((name, config, modules, init_from, folder))
            return ExitCode.FAILED

        return enter

    for module, name in APPS:
        stand_in = ModuleType(module)
        setattr(stand_in, name, app(name))
        monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return calls


def test_serve_enters_the_app_and_returns_its_code(apps: list[Call], tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[run]\nseed = 3\n")
    assert cli.main(["serve", "--config", str(path), "--set", "run.num_rounds=2"]) == ExitCode.FAILED
    assert apps == [("serve", load(path, ["run.num_rounds=2"]), tmp_path, None, None)]
    assert sys.path[-1] == str(tmp_path)


def test_loopback_alone_runs_the_defaults(apps: list[Call]) -> None:
    cli.main(["loopback"])
    assert apps == [("loopback", load(None, ["transport.bind=127.0.0.1:0"]), Path.cwd(), None, None)]


@pytest.mark.parametrize(("given", "address"), [("7480", "127.0.0.1:7480"), ("0.0.0.0:7480", "0.0.0.0:7480")])
def test_the_live_page_is_at_an_address_or_a_port_of_this_machine(apps: list[Call], given: str, address: str) -> None:
    cli.main(["loopback", "--dashboard", given])
    assert apps[0][1].report.dashboard == address


@pytest.mark.parametrize("given", ["true", "1.5", "[1]", "here", "99999", '"'])
def test_what_is_no_address_of_a_live_page_is_one_line(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["loopback", "--dashboard", given]) == ExitCode.BAD_CONFIG
    assert "expected nothing, or host:port, such as 127.0.0.1:7071" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("of_file", "settings", "bind"),
    [
        ("", [], FREE_PORT),
        ("127.0.0.1:7071", [], "127.0.0.1:7071"),
        ("", ["127.0.0.1:7072"], "127.0.0.1:7072"),
        ("127.0.0.1:7071", ["[::1]:7072"], "[::1]:7072"),
    ],
)
def test_loopback_takes_a_free_port_only_where_no_address_is_set(
    apps: list[Call], tmp_path: Path, of_file: str, settings: list[str], bind: str
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f'[transport]\nbind = "{of_file}"\n' if of_file else "[run]\nseed = 1\n")
    cli.main(["loopback", "--config", str(path), *(f"--set=transport.bind={setting}" for setting in settings)])
    assert apps[0][1].transport.bind == bind


def test_a_loopback_run_that_goes_on_has_the_address_of_its_own_config(apps: list[Call], tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "loopback", "transport.bind=127.0.0.1:7072")
    cli.main(["loopback", "--resume", str(folder.path)])
    assert apps[0][1].transport.bind == "127.0.0.1:7072"
    path = tmp_path / "run.toml"
    path.write_text(f'[run]\ndir = "{tmp_path}"\n')
    cli.main(["loopback", "--resume", str(folder.path), "--config", str(path)])
    assert apps[1][1].transport.bind == FREE_PORT


@pytest.mark.parametrize("command", ["loopback", "simulate"])
def test_a_run_may_start_from_another(command: str, apps: list[Call]) -> None:
    cli.main([command, "--init-from", "runs/older"])
    assert apps == [(command, load(None, [], command), Path.cwd(), Path("runs/older"), None)]


@pytest.mark.parametrize("command", ["serve", "loopback"])
def test_a_run_goes_on_with_its_own_settings_and_modules(command: str, apps: list[Call], tmp_path: Path) -> None:
    folder = stored_run(tmp_path, command, "run.seed=3")
    assert cli.main([command, "--resume", str(folder.path), "--set", "transport.bind=127.0.0.1:7072"]) == 4
    ((name, config, modules, init_from, found),) = apps
    assert (name, modules, init_from) == (command, tmp_path / "modules", None)
    assert (config.run.seed, config.transport.bind) == (3, "127.0.0.1:7072")
    assert found is not None
    assert found.path == folder.path
    assert sys.path[-1] == str(tmp_path / "modules")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["serve", "--resume", "x", "--init-from", "y"], "not allowed with argument"),
        (["simulate", "--resume", "x"], "x: expected a run folder with a config.toml, got nothing"),
        (["serve", "--init-from", "y"], "serve: expected --config FILE beside --init-from"),
        (
            ["serve", "--dashboard"],
            "of a run of a service, `coordinator dashboard RUN` serves",
        ),
        (["serve", "--settings", "x", "--config", "y"], "serve: expected --settings without a run"),
        (["serve"], "[transport] keys = 'coordinator-keys': expected the coordinator's keys there"),
        (["serve", "--resume", "no-such-folder"], "no-such-folder: expected a run folder with a config.toml"),
    ],
)
def test_what_cannot_be_resumed_is_exit_2(args: list[str], said: str) -> None:
    done = coordinator(*args)
    assert done.returncode == ExitCode.BAD_CONFIG
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["status", "stop", "report", "log"])
def test_a_run_is_known_by_its_address_too(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "203.0.113.7:7071"]) == ExitCode.BAD_CONFIG
    assert "203.0.113.7:7071: that is no address of this machine" in capsys.readouterr().err


def test_how_often_to_look_is_a_number_of_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["status", "x", "--watch", "-1"])
    assert "expected seconds from 0.1 to 86400, got '-1'" in capsys.readouterr().err


def test_loopback_waits_for_as_many_clients_as_it_starts(apps: list[Call], tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[data]\nnum_clients = 8\n[round]\nmin_available_clients = 6\n")
    cli.main(["loopback", "--config", str(path), "--clients", "3"])
    ((_, config, *_),) = apps
    assert (config.data.num_clients, config.min_available_clients) == (3, 3)


def test_a_config_error_of_the_app_is_exit_2_too(
    apps: list[Call], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from models.spec import ConfigError

    def fail(config: RunConfig, modules: Path, init_from: Path | None, folder: RunFolder | None) -> int:
        raise ConfigError("port 7071 is in use")

    monkeypatch.setattr(sys.modules["coordinator.loopback"], "loopback", fail)
    assert cli.main(["loopback"]) == ExitCode.BAD_CONFIG
    assert capsys.readouterr().err == "coordinator: port 7071 is in use\n"
