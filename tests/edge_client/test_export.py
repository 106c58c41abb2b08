"""From a finished run's state to a model file, and from images to classes."""

import errno
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from coordinator.config import load as load_run
from edge_client import cli
from edge_client.config import ClientConfig
from edge_client.config import load as load_client
from edge_client.data_source import open_source
from edge_client.final_model import keep_final, load_final
from edge_client.leftovers import run_folder
from edge_client.local_state import ConstantShelf, client_folder
from models import checkpoint, methods
from models.checkpoint import state_hash
from models.nets.frozen_backbone import constants_of
from models.participant import Participant
from models.spec import ConfigError
from tests.models.onnx_files import write_backbone
from wire.exit_codes import ExitCode

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    """Settings of a client that has finished a run on four bright and dark images."""
    write_backbone(tmp_path / "backbone.onnx", (1, 4, 4), 6)
    x = (np.arange(20)[:, None, None, None] % 2 * np.ones((20, 1, 4, 4))).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(20) % 2)
    given = ["client.id=a", f"client.dir={tmp_path}", "data.source=npz", f"data.root={tmp_path / 'mine.npz'}"]
    config = load_client(None, given)
    model = ("model.name=onnx", f"model.path={tmp_path / 'backbone.onnx'}", "model.feature_dim=6")
    spec = load_run(None, model).spec("run-1", ["dark", "bright"])
    _finish(spec, config)
    return given


@pytest.fixture
def noisy(settings: list[str], tmp_path: Path) -> list[str]:
    """Settings of a client that has finished a run with noise."""
    model = ("model.name=onnx", f"model.path={tmp_path / 'backbone.onnx'}", "model.feature_dim=6")
    run = load_run(None, [*model, "method.name=headcal", "privacy.noise_multiplier=4"])
    _finish(run.spec("run-2", ["dark", "bright"]), load_client(None, settings))
    return settings


def _finish(spec: object, config: ClientConfig) -> None:
    """Leave behind what a trainer does after a run's last evaluation."""
    from models.spec import RunSpec

    assert isinstance(spec, RunSpec)
    constants = constants_of(spec.model)
    digests = [state_hash(arrays) for arrays in constants.values()]
    shelf = ConstantShelf(client_folder(config))
    for (name, arrays), digest in zip(constants.items(), digests, strict=True):
        shelf.put(name, digest, arrays)
    data = open_source(spec, config).look()
    made = Participant(spec, methods.find(spec.method), "a", data, constants, secret=b"of this device")
    keep_final(client_folder(config), spec, digests, made.arrays())


def command(tmp_path: Path, settings: list[str], *more: str) -> list[str]:
    (tmp_path / "client.toml").write_text("")
    return ["export", "--config", str(tmp_path / "client.toml"), *(f"--set={each}" for each in settings), *more]


def test_a_model_is_written_tested_and_used(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    assert cli.main(command(tmp_path, settings, "--int8")) == 0
    printed = capsys.readouterr().out
    assert printed.count(f"{tmp_path}/a/model") == 2
    assert printed.count("local_prototype    1.0000 of 5 test samples") == 2, printed
    image.new("L", (9, 7), 255).save(tmp_path / "one.png")
    image.new("RGB", (4, 4), 0).save(tmp_path / "two.png")
    model = ["predict", "--model", str(tmp_path / "a" / "model.onnx"), "--rule", "local_prototype"]
    assert cli.main([*model, *(str(tmp_path / f"{name}.png") for name in ("three", "one", "two"))]) == 2
    said = capsys.readouterr()
    assert "expected images that can be read, got 1 of 3 that cannot" in said.err
    three, one, two = said.out.splitlines()
    assert one.startswith(f"{tmp_path}/one.png  bright  at distance 0.0")
    assert two.startswith(f"{tmp_path}/two.png  dark  at distance 0.0")
    assert "three.png  not read: " in three
    assert cli.main([*model, str(tmp_path / "one.png")]) == 0


def test_the_run_is_told_and_may_be_named(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a"
    first = load_final(folder)
    second = msgspec.structs.replace(first.spec, run_id="run-2")
    keep_final(folder, second, first.constants, first.arrays)
    finished_at = (folder / "final.safetensors").stat().st_mtime
    for seconds, run_id in ((-9, "run-0"), (9, "run-4"), (5, "run-3")):
        os.utime(run_folder(folder, run_id), (finished_at + seconds, finished_at + seconds))
    for run_id, told in (
        ("", "of run run-2; newer, without a final model: run-3, run-4"),
        ("run-1", "of run run-1"),
        ("run-2", "of run run-2"),
    ):
        assert cli.main(command(tmp_path, settings, *(["--run", run_id] if run_id else []))) == 0
        assert capsys.readouterr().out.splitlines()[0] == told
    for run_id in ("run-3", "../a"):
        assert cli.main(command(tmp_path, settings, "--run", run_id)) == 2
        expected = "expected a run that this client has finished and still keeps: run-1, run-2"
        assert f"--run {run_id}: {expected}" in capsys.readouterr().err


def test_the_last_finished_run_is_kept_when_what_it_left_is_gone(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "a" / "runs")
    for named in ([], ["--run", "run-1"]):
        assert cli.main(command(tmp_path, settings, *named)) == 0
        assert capsys.readouterr().out.startswith("of run run-1\n")


@pytest.mark.parametrize("texts", [{}, {"spec": "{", "constants": "[]"}, {"spec": "{}", "constants": "null"}])
def test_a_kept_model_without_its_run_is_named(tmp_path: Path, texts: dict[str, str]) -> None:
    checkpoint.write(tmp_path / "final.safetensors", {}, texts)
    with pytest.raises(ConfigError, match=r"final\.safetensors: expected what a run left"):
        load_final(tmp_path)


def test_before_any_run_there_is_nothing_to_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(command(tmp_path, ["client.id=b", "data.index=0", f"client.dir={tmp_path}"])) == 2
    assert "no model of a finished run" in capsys.readouterr().err


def test_the_model_of_a_run_with_noise_is_exported_as_any_other(
    tmp_path: Path, noisy: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command(tmp_path, noisy)) == 0, capsys.readouterr().err
    assert "of 5 test samples" in capsys.readouterr().out


def test_a_run_constant_that_is_kept_no_longer_is_asked_for_by_name(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (constant,) = (tmp_path / "a" / "constants").iterdir()
    constant.write_bytes(b"broken")
    for why in ("it is removed", "[client] keep_days and keep_mib say how long it is kept"):
        assert cli.main(command(tmp_path, settings)) == 2
        told = capsys.readouterr().err
        assert str(constant) in told
        assert f"{why}; a client that is started again is sent it" in told


@pytest.mark.parametrize("asked", ["load", "linear_rules"])
def test_what_the_method_does_wrong_is_told_in_a_line(
    tmp_path: Path,
    settings: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    def fail(*given: object) -> None:
        raise ValueError("expected shape (32,), got (64,)")

    spec = load_final(tmp_path / "a").spec
    data = open_source(spec, load_client(None, settings)).look()
    made = Participant(spec, methods.find(spec.method), "a", data, constants_of(spec.model))
    monkeypatch.setattr(type(made.client), asked, fail)
    assert cli.main(command(tmp_path, settings)) == ExitCode.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"edge-client: {asked.replace('_', ' ')} of the client half: ValueError: expected shape (32,)"
    )


def test_a_file_that_cannot_be_written_is_a_config_error(
    tmp_path: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command(tmp_path, settings, "--out", str(tmp_path / "nowhere" / "model.onnx"))) == 2
    assert "nowhere/model.onnx: expected a file to write a model to: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--int8",)])
def test_a_full_disk_is_told_in_a_line_and_the_same_command_can_be_given_again(
    tmp_path: Path,
    settings: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    write = Path.write_bytes

    def write_if_there_is_space(path: Path, content: bytes) -> int:
        if not more or "int8" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", write_if_there_is_space)
        assert cli.main(command(tmp_path, settings, *more)) == 6
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.endswith(": expected a file to write a model to: No space left on device; free some disk space")
    assert cli.main(command(tmp_path, settings, *more)) == 0


def test_a_final_model_is_read_back(tmp_path: Path) -> None:
    spec = load_run(None, ["model.name=mlp"]).spec("run-1", ["a", "b"])
    keep_final(tmp_path, spec, ["0" * 64], {"x": np.ones(2)})
    final = load_final(tmp_path)
    assert (final.spec, final.constants, final.arrays["x"].tolist()) == (spec, ["0" * 64], [1.0, 1.0])
    keep_final(tmp_path, spec, ["0" * 64], {"x": np.ones(2)}, ["backbone"])
    assert (final.names, load_final(tmp_path).names) == ([], ["backbone"])
    (tmp_path / "final.safetensors").write_bytes(b"broken")
    with pytest.raises(ConfigError, match="expected a safetensors file"):
        load_final(tmp_path)
