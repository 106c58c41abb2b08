"""The page in a real browser: Debian's chromium, without a window."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.dashboard.process import NEEDED, Dashboard
from coordinator.report.command import leave_behind
from coordinator.report.comparison import comparison_page
from coordinator.report.forms import PAGE
from coordinator.report.reading import Run
from coordinator.units import show_accuracy, show_bytes, show_count
from tests.coordinator.accounting import report, scored
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.report.test_large_run import large_run
from tests.integration.processes import until

pytest.importorskip("jinja2")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium or chromedriver is not installed"),
]

CELLS = "return [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


def show(browser: Any, page: Path | str, width: int = 1280, scheme: str = "light") -> None:
    """Open a page in a window of this width."""
    window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page if isinstance(page, str) else page.resolve().as_uri())


@pytest.fixture(scope="module")
def pages(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "comparison.html").write_text(comparison_page([run, run]))
    large = large_run(folder)
    for one in (run.folder, large):
        assert list(leave_behind(one, [PAGE])) == [f"report: {one.page_path}"]
    return [run.folder.page_path, large.page_path, folder / "comparison.html"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_says_anything_on_the_console_or_is_wider_than_its_window(
    browser: Any, pages: list[Path], width: int, scheme: str
) -> None:
    for page in pages:
        show(browser, page, width, scheme)
        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_letters_of_plots_can_be_read(browser: Any, pages: list[Path]) -> None:
    heights = "return [...document.querySelectorAll('.axis text')].map(text => text.getBoundingClientRect().height)"
    for width in (360, 1280):
        show(browser, pages[0], width)
        found = [height for height in browser.execute_script(heights) if height]
        assert found
        assert min(found) >= 11


def test_the_numbers_shown_are_the_stores(browser: Any, run: Run, pages: list[Path]) -> None:
    show(browser, pages[0])
    rows = {cells[0]: cells[1:] for cells in reversed(browser.execute_script(CELLS)) if cells}

    def stored(query: str) -> Any:
        with contextlib.closing(sqlite3.connect(f"{run.folder.store_path.as_uri()}?mode=ro", uri=True)) as store:
            return store.execute(query).fetchone()[0]

    def total(way: str, figure: str) -> int:
        return int(stored(f"SELECT sum(json_extract(line, '$.{way}.{figure}')) FROM rounds"))

    assert rows["elements"][::2] == [show_count(total(way, "elements")) for way in ("up", "down")]
    for label, figure in (("payload", "payload_bytes"), ("encoded", "encoded_bytes"), ("on the wire", "wire_bytes")):
        assert rows[label][::2] == [show_bytes(total(way, figure)) for way in ("up", "down")]
    correct, tested = (
        stored(
            f"SELECT sum(json_extract(score.value, '{path}')) FROM metrics, json_each(line, '$.evaluations') AS score "
            "WHERE json_extract(score.value, '$.round') = 2 AND json_extract(score.value, '$.correct.head') IS NOT NULL"
        )
        for path in ("$.correct.head", "$.num_test")
    )
    assert rows["head"][2] == show_accuracy(correct / tested)


def test_the_live_page_moves_with_the_run(browser: Any, tmp_path: Path) -> None:
    for needed in NEEDED:
        pytest.importorskip(needed)
    recorded = RecordedRun(tmp_path)
    with contextlib.closing(Dashboard(recorded.settle(), "127.0.0.1:0")) as dashboard:
        show(browser, dashboard.url, 360)
        rounds = "return document.querySelector('.under')?.textContent ?? ''"
        link = "return document.getElementById('link').textContent"
        until(lambda: browser.execute_script(rounds).startswith("2 of 3 rounds"), "the page has two rounds")
        until(lambda: browser.execute_script(link) == "live", "the page is live")
        recorded.round(3, 20.0, {"ann": report(0.25, scored(3, 10, head=9))})
        recorded.settle()
        until(lambda: browser.execute_script(rounds).startswith("3 of 3 rounds"), "the page has three rounds")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        recorded.end()
    until(lambda: browser.execute_script(link) == "over", "the page says that the run is over")
    assert browser.execute_script("return document.querySelector('.badge').textContent") == "finished"
    assert browser.get_log("browser") == []
