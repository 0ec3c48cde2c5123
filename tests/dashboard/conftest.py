"""A real browser on a real server. Console errors, and requests to other hosts, fail the test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from dashboard.dashboard_page import BROWSER_FLAGS, PATIENCE_MILLISECONDS, DashboardPage, fill
from journeys.system import DEMO, System, open_system
from servers.postgres import migrated_database, shared_server
from servers.private_server import required


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def system(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[System]:
    """Start Rota with the demo app on each store, and give it something to show."""
    with open_system(tmp_path_factory.mktemp("dashboard")) as one, lent_store(request.param, one) as store:
        one.store = store
        start = ("standalone", "--port", str(one.port), "--store", store, "--app", "tasks:app")
        one.start(*start, "--queues", "default,narrow", cwd=DEMO)
        one.until_up()
        fill(one)
        yield one


@contextmanager
def lent_store(kind: str, system: System) -> Iterator[str]:
    """Give a SQLite file, or an empty database on PostgreSQL."""
    if kind == "sqlite":
        yield str(system.folder / "demo.db")
        return
    # On a thread of its own: Playwright has a loop on this one.
    lent = migrated_database(shared_server())
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(loop.run_until_complete, lent.__aenter__()).result()
        thread.submit(loop.run_until_complete, lent.__aexit__(None, None, None)).result()
    loop.close()


# Of a module, not of the session: Playwright's loop would stand in the way of other modules' asynchronous tests.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = required(next(filter(None, map(shutil.which, names)), None), "no Chromium; tools/servers installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(BROWSER_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, system: System, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Give a page of the colour scheme and width that a test asks for."""
    screen: tuple[Literal["light", "dark"], int] = getattr(request, "param", ("light", 1440))
    scheme, width = screen
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce", timezone_id="UTC"
    )
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(_words(said)) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: complaints.append(asked.url) if _is_foreign(asked.url, system.port) else None)
    expected: list[str] = []
    page.expected_complaints = expected  # type: ignore[attr-defined]
    yield page
    context.close()
    assert [one for one in complaints if not any(part in one for part in expected)] == []


def _words(said: ConsoleMessage) -> str:
    return f"{said.location.get('url', '')} {said.text}"


def _is_foreign(url: str, port: int) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"http", "https", "ws", "wss"} and parts.port != port


@pytest.fixture
def dashboard(page: Page, system: System) -> DashboardPage:
    """Give the dashboard in a page."""
    return DashboardPage(page, system, page.expected_complaints)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def axe() -> str:
    """Give the source of axe-core, of the locked packages."""
    path = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
    return required(path if path.exists() else None, "no axe-core; run `make ui-check`").read_text(encoding="utf-8")
