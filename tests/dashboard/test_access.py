"""The dashboard without access, and on servers that fail: 401, 403, 503 and read-only servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from journeys.system import System, open_system

TOKEN = "hush"  # noqa: S105 - of a server that lives for seconds


@contextmanager
def served(folder: Path, store: str, *flags: str, token: str = "") -> Iterator[System]:
    """Start one more API process on a store."""
    with open_system(folder, store) as system:
        system.start("api", "--port", str(system.port), "--store", store, *flags, environment={"ROTA_TOKEN": token})
        system.until_up()
        yield system


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


#: The names of buttons that change something.
CHANGES = re.compile(
    "^(Pause|Resume|Purge|Submit|Retry|Cancel|Run|Duplicate|Edit|New|Close limit|Delete|Quiet|Stop|Stacks|Note|Discard)"
)


def dead_job(system: System) -> str:
    return str(system.ask("GET", "/v1/jobs?status=dead&limit=1")["items"][0]["id"])


def offers_no_change(page: Page, server: System, job: str) -> None:
    """Look for buttons that change something, on all pages that have them for others."""
    for path in ("queues", "jobs?status=dead", f"jobs/{job}", "limits", "schedules", "workers", "dead", "system"):
        page.goto(f"{server.url}/ui/{path}")
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main .loading")).to_have_count(0)
        expect(page.locator("main").get_by_role("button", name=CHANGES)).to_have_count(0)


def status_of_pause(page: Page) -> int:
    """Ask the server past the page."""
    asked = "async () => (await fetch('/v1/queues/default/pause', { method: 'POST' })).status"
    return int(page.evaluate(asked))


def test_a_read_only_server_says_so_offers_no_change_and_refuses_each(
    browser: Browser, system: System, tmp_path: Path
) -> None:
    with served(tmp_path, system.store, "--read-only") as quiet, opened(browser) as page:
        page.goto(f"{quiet.url}/ui/queues")
        expect(page.locator(".topbar").get_by_text("Read only")).to_be_visible()
        offers_no_change(page, quiet, dead_job(system))
        assert status_of_pause(page) == 403
        assert system.ask("GET", "/v1/queues/default")["is_paused"] is False


def test_a_token_that_may_not_read_is_told_which_action_is_missing(
    browser: Browser, system: System, tmp_path: Path
) -> None:
    with served(tmp_path, system.store, token=TOKEN) as guarded, opened(browser) as page:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        made = guarded.ask("POST", "/v1/tokens", {"name": f"sub-{guarded.port}", "role": "submitter"}, **bearer)
        page.goto(f"{guarded.url}/ui/queues")
        sign_in(page, made["secret"])
        expect(page.locator("main").get_by_text("Not allowed")).to_be_visible()
        expect(page.locator("main").get_by_text("this token lacks the action 'queues.read'")).to_be_visible()
        expect(page.locator(".topbar")).to_contain_text(f"sub-{guarded.port}")


def test_a_viewer_sees_all_and_is_offered_no_change(browser: Browser, system: System, tmp_path: Path) -> None:
    with served(tmp_path, system.store, token=TOKEN) as guarded, opened(browser) as page:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        made = guarded.ask("POST", "/v1/tokens", {"name": f"see-{guarded.port}", "role": "viewer"}, **bearer)
        page.goto(f"{guarded.url}/ui/queues")
        sign_in(page, made["secret"])
        expect(page.locator(".topbar").get_by_text("Read only")).to_be_visible()
        offers_no_change(page, guarded, dead_job(system))
        assert status_of_pause(page) == 403, "the server decides, not the page"
        assert system.ask("GET", "/v1/queues/default")["is_paused"] is False
        guarded.ask("DELETE", f"/v1/tokens/{made['id']}", **bearer)
        # Whoever is no longer let in is asked for a token, on whatever page.
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(page.get_by_label("Token", exact=True)).to_be_visible()


def test_a_store_that_is_away_is_a_page_with_a_remedy_and_is_seen_to_return(browser: Browser, tmp_path: Path) -> None:
    with open_system(tmp_path) as system, opened(browser) as page:
        command = ("api", "--port", str(system.port), "--store", system.store)
        process = system.start(*command)
        system.until_up()
        for path in tmp_path.glob(f"{system.store}*"):
            path.rename(path.with_name(f"moved-{path.name}"))
        page.goto(f"{system.url}/ui/jobs")
        expect(page.locator("main").get_by_text("The server failed")).to_be_visible()
        expect(page.locator("main").get_by_text("503")).to_be_visible()
        process.terminate()
        process.wait(60)
        for path in tmp_path.glob(f"moved-{system.store}*"):
            path.rename(path.with_name(path.name.removeprefix("moved-")))
        system.start(*command)
        system.until_up()
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("main h1")).to_have_text("Jobs")
        expect(page.locator("main").get_by_text("The server failed")).to_have_count(0)


def test_a_job_that_is_not_there_is_a_page_of_its_own(browser: Browser, system: System) -> None:
    with opened(browser) as page:
        page.goto(f"{system.url}/ui/jobs/00000000000000")
        expect(page.locator("main").get_by_text("Not found")).to_be_visible()
        page.get_by_role("link", name="Go to Overview").click()
        expect(page.locator("main h1")).to_have_text("Overview")


def test_the_restart_of_a_server_is_seen_on_an_open_page(browser: Browser, system: System, tmp_path: Path) -> None:
    """A second API process on the same store restarts; what happened meanwhile is there when it is back."""
    with open_system(tmp_path, system.store) as other, opened(browser) as page:
        command = ("api", "--port", str(other.port), "--store", system.store)
        process = other.start(*command)
        other.until_up()
        page.goto(f"{other.url}/ui/jobs?tag=restarted")
        expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
        process.terminate()
        process.wait(60)
        expect(page.get_by_role("button", name=re.compile("^Stale"))).to_be_visible()
        system.ask("POST", "/v1/jobs", {"type": "send_email", "tags": ["restarted"]})
        other.start(*command)
        other.until_up()
        expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
        expect(page.locator("main tbody tr", has_text="send_email")).to_have_count(1)
