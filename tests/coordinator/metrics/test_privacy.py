"""What noise has cost: how many releases are counted, what they come to, and what is said where that is unknown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config import load
from coordinator.metrics import privacy
from coordinator.metrics.ledger import Ledger
from coordinator.report.page import run_page
from coordinator.report.reading import read_run
from models.spec import ConfigError, PrivacyConfig
from tests.coordinator.accounting import READY, SPEC, TWO, Book, report
from tests.integration.simulated import settings, simulated_here

NOISY = PrivacyConfig(noise_multiplier=4.0)
FROZEN = "method.name=tests.models.frozen_method:METHOD"


def noisy_book() -> Book:
    book = Book()
    book.ledger = Ledger(replace(SPEC, privacy=NOISY), TWO)
    for client, ready in READY.items():
        book.ledger.announce(client, ready)
    return book


def releases(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    monkeypatch.setattr(privacy, "epsilon", lambda *_: None)
    told = ledger.summary("serve", {}, {})["privacy"]["clients"]
    return {client: figures["num_releases"] for client, figures in told.items()}


def test_a_run_without_noise_has_nothing_to_tell() -> None:
    assert privacy.privacy_summary(PrivacyConfig(), {"ann": 3}, "serve") == {}
    assert "privacy" not in Book().ledger.summary("serve", {}, {})


def test_nothing_is_counted_where_no_noise_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is looked at while the run goes on sums it up again and again."""
    monkeypatch.delattr(privacy.Releases, "at_most")
    book, both = Book(), {"ann": report(1), "bob": report(1)}
    book.round(1, 0, both, both)
    assert "privacy" not in book.ledger.summary("serve", {}, {})


def test_a_client_is_charged_for_joining_for_each_exchange_and_for_all_of_rounds_that_may_have_asked_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book, both = noisy_book(), {"ann": report(1), "bob": report(1)}
    assert releases(book.ledger, monkeypatch) == {"ann": 1 + 2, "bob": 1 + 2}  # a round that may be open
    book.round(1, 0, both, both)
    assert releases(book.ledger, monkeypatch) == {"ann": 1 + 2 + 2, "bob": 1 + 2 + 2}
    book.ledger.round_opened(2, 10)
    book.open(2, 0, 10, {})
    book.close(2, 20, "failed")
    assert releases(book.ledger, monkeypatch) == {"ann": 1 + 2 + 2 + 2, "bob": 1 + 2 + 2 + 2}
    book.round(3, 30, both, both)
    at_the_end = releases(book.ledger, monkeypatch)
    assert at_the_end == {"ann": 7, "bob": 7}
    book.exchange(3, 2, 40, {})  # the evaluation, which tells of test samples alone
    assert releases(book.ledger, monkeypatch) == at_the_end


def test_who_was_not_asked_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    book = noisy_book()
    book.round(1, 0, {"ann": report(1)}, {"ann": report(1)})
    book.ledger.announce("eve", READY["bob"])
    assert releases(book.ledger, monkeypatch) == {"ann": 5, "bob": 5, "eve": 3}


def test_the_charges_survive_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    book, both = noisy_book(), {"ann": report(1), "bob": report(1)}
    book.round(1, 0, both, both)
    again = Ledger(replace(SPEC, privacy=NOISY), TWO)
    again.replay([*book.exchange_lines, *book.round_lines])
    assert releases(again, monkeypatch) == releases(book.ledger, monkeypatch)


def test_epsilon_grows_with_releases_and_shrinks_with_noise() -> None:
    accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    found = privacy.epsilon(4.0, 1e-5, 10)
    assert found is not None
    accountant = pld.PLDAccountant()
    accountant.compose(accounting.GaussianDpEvent(4.0), 10)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    less, more = privacy.epsilon(8.0, 1e-5, 10), privacy.epsilon(4.0, 1e-5, 11)
    assert less is not None
    assert more is not None
    assert less < found < more


def test_a_run_whose_noise_cannot_be_accounted_for_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "find_spec", lambda name: None)
    privacy.require_accounting(PrivacyConfig())
    for noise in (1e-300, 0.001, 1e200):
        with pytest.raises(ConfigError, match=r"noise_multiplier = 1?[0-9.e+-]*: expected 0, or 0\.01 to 10000"):
            privacy.require_accounting(PrivacyConfig(noise_multiplier=noise))
    with pytest.raises(
        ConfigError, match=r"noise_multiplier = 4: expected dp-accounting.*pip install 'protoedge\[priv"
    ):
        privacy.require_accounting(NOISY)


def test_noise_for_a_method_that_trains_its_extractor_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"\[privacy\] noise_multiplier = 1: expected 0, as fedproto has"):
        load(None, ["privacy.noise_multiplier=1"])
    assert load(None, [FROZEN, "privacy.noise_multiplier=1"]).privacy.adds_noise


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    privacy.epsilon.cache_clear()


@pytest.mark.usefixtures("without_library")
def test_an_epsilon_that_cannot_be_known_here_is_null_with_its_reason(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    chosen = settings(FROZEN, "privacy.noise_multiplier=4", "report.page=false")
    summary: dict[str, Any] = simulated_here(tmp_path / "runs", chosen)
    assert summary["privacy"]["clients"]["client-00"] == {"num_releases": 3, "epsilon": None}
    assert "pip install 'protoedge[privacy]'" in summary["null_reasons"]["privacy.clients.client-00.epsilon"]
    assert "seed" in summary["privacy"]["secret"]
    pytest.importorskip("jinja2")
    (folder,) = (tmp_path / "runs").iterdir()
    page = run_page(read_run(folder))
    assert "<th>ε</th>" in page
    assert "<td>3</td><td>n/a</td>" in page


def test_a_run_with_noise_states_its_epsilon(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    pytest.importorskip("sklearn")
    privacy.epsilon.cache_clear()
    summary = simulated_here(tmp_path / "runs", settings(FROZEN, "privacy.noise_multiplier=4"))
    assert summary["privacy"]["clients"]["client-00"]["epsilon"] == pytest.approx(1.69, abs=0.05)
