"""The papers' tables: their rows can be run, kept runs are found again, and an order is told from chance."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from coordinator.config import load
from tests.benchmarks import job
from tests.benchmarks.papers import findings, study, tables
from tests.benchmarks.papers.__main__ import main
from tests.benchmarks.papers.order import Gap, gap, holds, lead, order
from tests.benchmarks.papers.samples import DIGITS, thin
from tests.benchmarks.papers.study import Federation, PaperTable, Row, Run, Runs, Scale, no_more
from tests.benchmarks.result import Claim

FEDERATION = Federation("Digits", DIGITS, (), [Row("a", ("method.name=fedproto",), 90.0)], num_seeds=2)


def summary(day: str, accuracy: float) -> dict[str, Any]:
    """What is read of a run's summary."""
    sent = {"elements": 500, "encoded_bytes": 2000}
    return {
        "run_id": f"tinyproto-ft-{day}-010203-abcd",
        "accuracy": {"best": accuracy, "last": accuracy},
        "rounds_completed": 2,
        "uplink": sent,
        "downlink": sent,
        "clients": {"client-00": {"num_test": 30}, "client-01": {"num_test": 50}},
        "versions": {"protocol": "1.1" if day < "20260102" else "1.2"},
    }


def keep(folder: Path, settings: list[str], day: str, accuracy: float) -> None:
    run = Run(settings, 1.5, summary(day, accuracy))
    (folder / f"{day}.json").write_bytes(msgspec.json.encode(run))


@pytest.mark.parametrize("name", tables.NAMES)
@pytest.mark.parametrize("scale", ["cpu", "gpu"])
def test_every_row_is_a_run_and_every_order_is_of_rows(name: str, scale: Scale) -> None:
    for federation in tables.find(name, scale).federations:
        names = [row.name for row in federation.rows]
        assert len(set(names)) == len(names)
        assert {each for names_in_order in federation.orders for each in names_in_order} <= set(names)
        for row in federation.rows:
            config = load(None, federation.settings_of(row, 0, Path("files")))
            assert config.spec("run", [str(label) for label in range(10)]).num_rounds == config.run.num_rounds
            assert (config.training.device == "cuda") is (scale == "gpu")


def test_a_try_has_every_row_once_and_says_nothing_of_the_paper() -> None:
    tried = tables.find("fedpa", "cpu").tried(2)
    for federation, whole in zip(tried.federations, tables.find("fedpa", "cpu").federations, strict=True):
        assert [row.name for row in federation.rows] == [row.name for row in whole.rows]
        assert (federation.num_seeds, federation.orders, federation.more) == (1, (), no_more)
        configs = [load(None, federation.settings_of(row, 0, Path("files"))) for row in federation.rows]
        assert {(config.run.num_rounds, config.evaluation.every) for config in configs} == {(2, 1)}


def test_every_title_says_which_table_of_which_paper() -> None:
    for name in tables.NAMES:
        paper, _, rest = tables.title(name).partition(", ")
        assert paper in ("FedPA", "GFPL", "HGP", "RefProtoFL", "TinyProto")
        assert rest.startswith(("Table", "Figure"))


def test_a_kept_run_is_found_in_another_folder_and_in_another_order_of_settings(tmp_path: Path) -> None:
    keep(
        tmp_path, ["run.seed=0", "data.root=/elsewhere/mnist.npz", "training.lr=0.1", "training.lr=0.2"], "20260101", 1
    )
    run = Runs(tmp_path).get(["data.root=/here/mnist.npz", "training.lr=0.2", "run.seed=0", "run.store=memory"])
    assert run.date == "2026-01-01"


@pytest.mark.parametrize("other", ["run.seed=1", "data.root=/here/fashion-mnist.npz", "training.lr=0.1"])
def test_a_run_of_other_settings_is_another(other: str) -> None:
    settings = ["run.seed=0", "data.root=/here/mnist.npz", "training.lr=0.2"]
    assert study.identity([*settings, other]) != study.identity(settings)


def test_a_run_that_was_interrupted_goes_on_and_its_rounds_tell_how_long_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def resumed(*args: object, more: list[str], **how: object) -> SimpleNamespace:
        asked.append(more)
        rounds = [{"round_s": 2.0}, {"round_s": None}]
        return SimpleNamespace(folder=tmp_path / "begun", summary=summary("20260101", 1), wall_s=1.0, rounds=rounds)

    monkeypatch.setattr(study, "last_run", lambda config, mode: tmp_path / "begun")
    monkeypatch.setattr(job, "run", resumed)
    assert Runs(tmp_path).get(["method.name=fedproto"]).wall_s == 2.0
    assert asked == [["--resume", str(tmp_path / "begun")]]


def test_an_interrupted_table_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "find", interrupted)
    monkeypatch.setattr(sys, "argv", ["papers", "hgp", "--out", str(tmp_path)])
    assert main() == 130
    assert capsys.readouterr().err == "\ninterrupted; the same command goes on\n"


def test_a_result_tells_of_its_newest_run_and_of_all_versions(tmp_path: Path) -> None:
    for seed, (day, accuracy) in enumerate([("20260101", 0.9), ("20260102", 0.8)]):
        keep(tmp_path, FEDERATION.settings_of(FEDERATION.rows[0], seed, tmp_path), day, accuracy)
    result = findings.measured("digits", "cpu", "Digits", PaperTable(["About."], [FEDERATION]), Runs(tmp_path))
    (table,) = result.findings.tables
    assert (result.date, result.machine) == ("2026-01-02", {"protocol": "1.1, 1.2", "took": "3 s"})
    assert table.rows == [["a", "85.00 ± 5.00", "85.00 ± 5.00", "90.00", "2", "1,000", "1,000"]]


def test_samples_that_all_clients_are_tested_on_count_once() -> None:
    assert Run([], 0, summary("20260101", 1)).num_tests == 80
    assert Run(["evaluation.test=global"], 0, summary("20260101", 1)).num_tests == 50


def test_a_gap_tells_nothing_within_a_standard_error_of_the_tests() -> None:
    assert gap([92.0], [90.0], num_tests=100) == pytest.approx((2.0, 3.0))


def test_nor_within_half_the_spread_of_the_seeds() -> None:
    assert gap([92.0, 96.0], [91.0, 91.0], num_tests=10**8) == pytest.approx((3.0, 2.0))


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([Gap(2, 1), Gap(3, 1)], True),
        ([Gap(2, 1), Gap(1, 1)], None),
        ([Gap(2, 1), Gap(-1, 1)], None),
        ([Gap(0.5, 1), Gap(-2, 1)], False),
    ],
)
def test_an_order_holds_if_all_gaps_say_so_and_not_if_one_says_no(gaps: list[Gap], verdict: bool | None) -> None:
    assert holds(gaps) is verdict


def test_a_claim_names_rows_and_figures() -> None:
    claim = order(["a", "b"], "best round", [[95.0], [90.0]], num_tests=900)
    assert (claim.text, claim.holds) == ("a > b, best round", True)
    assert claim.seen == "95.00, 90.00 %; gaps +5.00 ± 1.00"


def test_a_thinned_split_keeps_its_proportions() -> None:
    kept = thin({"a": np.arange(60), "b": np.arange(60, 100)}, 10)
    assert {name: len(rows) for name, rows in kept.items()} == {"a": 6, "b": 4}


@pytest.mark.parametrize(
    ("higher", "holds", "seen"),
    [(96.0, True, "+6.00 ± 1.00 points"), (92.5, None, "+2.50 ± 1.00 points"), (90.9, False, "+0.90 ± 1.00 points")],
)
def test_a_lead_is_told_from_chance(higher: float, holds: bool | None, seen: str) -> None:
    claim = lead(["a", "b"], 2, "best round", [[higher], [90.0]], num_tests=900)
    assert claim == Claim("a is 2 points above b, best round", holds, seen)
