"""The pages that a browser asks for, asked without a network."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")

from coordinator.dashboard.live import LiveRun
from coordinator.dashboard.web import make_app
from coordinator.report.reading import Run
from coordinator.store.run_folder import RunFolder


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


def ask(folder: RunFolder, path: str, token: str = "", method: str = "GET", **headers: str) -> Answer:
    """Ask the application for one page; of a stream that never ends, because the process that ran it has left."""
    sent: list[dict[str, Any]] = []

    asked: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        while not asked:  # the browser stays
            await asyncio.sleep(60)
        return asked.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        live = LiveRun(folder)
        live.left.set()
        path_only, _, query = path.partition("?")
        named = {"host": "127.0.0.1", **headers}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path_only,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
        await asyncio.wait_for(make_app(live, token)(scope, receive, send), 20)

    asyncio.run(run())
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], told, body.decode())


def test_the_page_holds_the_run_and_its_own_script_alone(run: Run) -> None:
    answer = ask(run.folder, "/")
    assert answer.status == 200
    assert answer.text.count("<script") == answer.text.count('<script src="live.js" defer>') == 1
    assert run.folder.run_id in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert ask(run.folder, "/live.js").headers["content-type"].startswith("text/javascript")
    assert ask(run.folder, "/body").text in answer.text


def test_events_health_and_metrics(run: Run) -> None:
    assert ask(run.folder, "/events").text == 'data: "over"\n\n'
    assert json.loads(ask(run.folder, "/healthz").text) == {"status": "ok", "outcome": "finished"}
    metrics = ask(run.folder, "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'protoedge_rounds_total{status="completed"} 2.0' in metrics.text


def test_a_run_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    answer = ask(RunFolder(tmp_path), "/healthz")
    assert (answer.status, answer.text[-1]) == (503, "\n")
    assert "expected a run folder" in answer.text


@pytest.mark.parametrize("path", ["/", "/body", "/live.js", "/events", "/metrics", "/healthz"])
def test_who_has_no_token_is_not_let_in(run: Run, path: str) -> None:
    assert ask(run.folder, path, "secret").status == 401
    assert ask(run.folder, f"{path}?token=other", "secret").status == 401
    assert ask(run.folder, f"{path}?token=secret", "secret").status == 200
    assert ask(run.folder, path, "secret", cookie="token=secret").status == 200
    assert ask(run.folder, path, "secret", authorization="Bearer secret").status == 200


def test_a_token_becomes_a_cookie_that_no_script_can_read(run: Run) -> None:
    cookie = ask(run.folder, "/?token=secret", "secret").headers["set-cookie"]
    assert cookie.startswith("token=secret;")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_nothing_can_be_changed_and_no_foreign_name_leads_here(run: Run) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(run.folder, "/", method=method).status == 405
    for host in ("attacker.example", "attacker.example:7080", "192.168.1.9", "127.0.0.1.attacker.example", "[::1", ""):
        assert ask(run.folder, "/", host=host).status == 400
    for host in ("localhost:7080", "127.0.0.2:7080", "[::1]:7080", "LOCALHOST"):
        assert ask(run.folder, "/healthz", host=host).status == 200
