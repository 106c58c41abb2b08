"""Faults of a researcher's own method: each ends the run as one of the method, in words that name its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coordinator import cli
from tests.integration.simulated import settings, simulated_here
from wire.exit_codes import ExitCode


def reason_of(fault: str, folder: Path, *more: str) -> str:
    """Return how a run of a method with this fault ends, whose folder stays."""
    pytest.importorskip("sklearn")
    own = ("method.name=tests.models.faulty_method:METHOD", f"method.fault={fault}", *more)
    reason = simulated_here(folder / "run", settings(*own), ExitCode.FAILED)["reason"]
    assert isinstance(reason, str)
    return reason


@pytest.mark.parametrize(
    ("fault", "whose"),
    [
        ("uplink", "client client-00: uplink of round 1, exchange 'mean'"),
        ("downlink", "downlink of round 1, exchange 'mean'"),
    ],
)
def test_a_value_that_cannot_travel_is_the_methods_fault(fault: str, whose: str, tmp_path: Path) -> None:
    told = f"method faulty: {whose}: array 'mean': codec f32 cannot hold nan at [0]"
    assert reason_of(fault, tmp_path) == told


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            "metrics",
            "aggregate of round 1, exchange 'mean': expected a mapping of metrics to log, {} for none, got NoneType",
        ),
        ("uplink_dims", "exchange 'mean': uplink_dims: expected the size of every symbol of Mean, got none of 'D'"),
        ("downlink_dims", "exchange 'mean': downlink_dims: expected the size of every symbol of Mean, got none of 'D'"),
    ],
)
def test_what_is_lacking_is_named_with_its_place(fault: str, told: str, tmp_path: Path) -> None:
    assert reason_of(fault, tmp_path) == f"method faulty: {told}"


def test_so_is_one_of_the_global_state(tmp_path: Path) -> None:
    whose = "global state after round 1, exchange 'mean'"
    told = f"method faulty: {whose}: array 'mean': codec f32 cannot hold inf at [0]"
    assert reason_of("state", tmp_path) == told


AT = "of round 1, exchange 'mean'"

RAISED = r"ValueError: two lines \(faulty_method\.py, line \d+\)"

LEFT = r"SystemExit: 3 \(faulty_method\.py, line \d+\)"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("uplink raises", f"client client-00: uplink {AT}: {RAISED}"),
        ("uplink exits", f"client client-00: uplink {AT}: {LEFT}"),
        ("no uplink", f"client client-00: uplink {AT}: expected a Record, Mean, got NoneType"),
        ("configure raises", f"downlink {AT}: {RAISED}"),
        ("aggregate exits", f"aggregate {AT}: {LEFT}"),
        ("metric", f"aggregate {AT}: expected a number as metric 'loss', got 'good'"),
        ("metric array", rf"aggregate {AT}: expected a number as metric 'loss', got an array of shape \(50,\)"),
        ("metric name", f"aggregate {AT}: expected texts as names of metrics, got int"),
        ("list", "arrays of the server half: expected a numpy array as 'mean', got list"),
        ("no downlink_dims", "exchange 'mean': downlink_dims: expected sizes by symbol, got NoneType"),
        ("uplink_dims raises", f"exchange 'mean': uplink_dims: {RAISED}"),
    ],
)
def test_whatever_a_method_does_is_told_in_one_line_and_its_traceback_is_in_the_log(
    fault: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = reason_of(fault, tmp_path)
    assert re.fullmatch(f"method faulty: {told}", reason), reason
    assert "Traceback" not in capsys.readouterr().err
    (log,) = tmp_path.glob("run/*/log.txt")
    assert "Traceback" in log.read_text()


def test_a_message_above_the_limit_is_named_and_what_has_run_stays(tmp_path: Path) -> None:
    """Its size is a setting's matter, so the run ends with 2, as a client of `loopback` does."""
    pytest.importorskip("sklearn")
    limit = "transport.max_message_bytes=65536"
    own = ("method.name=tests.models.faulty_method:METHOD", limit)
    uplink = settings(*own, "method.fault=large uplink")
    downlink = settings(*own, "model.feature_dim=20000")
    both = {"uplink": uplink, "downlink": downlink}
    told = [simulated_here(tmp_path / name, chosen, ExitCode.BAD_CONFIG)["reason"] for name, chosen in both.items()]
    above = r"80\d\d\d bytes are more than \[transport\] max_message_bytes = 65536"
    assert re.fullmatch(f"method faulty: client client-00: uplink {AT}: Update: {above}", told[0])
    assert re.fullmatch(f"method faulty: downlink {AT}: Task: {above}", told[1])


def test_so_is_a_downlink_that_goes_to_devices(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    own = ("method.name=tests.models.faulty_method:METHOD", "data.num_clients=1", "model.feature_dim=20000")
    chosen = settings(*own, "transport.max_message_bytes=65536", f"run.dir={tmp_path}")
    assert cli.main(["loopback", *chosen]) == ExitCode.BAD_CONFIG
    (summary,) = tmp_path.glob("*/summary.json")
    reason = json.loads(summary.read_text())["reason"]
    assert re.match(rf"method faulty: downlink {AT}: Task: 80\d\d\d bytes are more than", reason), reason


@pytest.mark.parametrize(("fault", "told"), [("uplink raises", RAISED), ("uplink exits", LEFT)])
def test_so_it_is_by_a_device(fault: str, told: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    own = settings("method.name=tests.models.faulty_method:METHOD", f"method.fault={fault}", "data.num_clients=1")
    assert cli.main(["loopback", *own, "--set", f"run.dir={tmp_path}"]) == ExitCode.FAILED
    (summary,) = tmp_path.glob("*/summary.json")
    reason = json.loads(summary.read_text())["reason"]
    assert re.search(f"client-00 exited with 4: .*method faulty: uplink {AT}: {told}$", reason), reason


def test_what_a_method_notes_of_a_run_is_told_beforehand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "the fault is 'metrics' in 2 rounds"
    reason_of("metrics", tmp_path)
    (log,) = tmp_path.glob("run/*/log.txt")
    assert told in log.read_text().splitlines()[0]
    capsys.readouterr()
    own = settings("method.name=tests.models.faulty_method:METHOD", "method.fault=metrics")
    assert cli.main(["check-config", *own]) == ExitCode.FINISHED
    assert capsys.readouterr().err == f"coordinator: {told}\n"
