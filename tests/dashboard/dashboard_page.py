"""Page object of the dashboard for browser tests, the flags of the browser, and jobs to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect

from journeys.system import System

BROWSER_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
PATIENCE_MILLISECONDS: Final = 20_000
expect.set_options(timeout=PATIENCE_MILLISECONDS)
#: More than a number of JavaScript holds.
LARGE: Final = 12345678901234567890


def submit(system: System, **job: object) -> str:
    """Submit a job, and return its id."""
    return str(system.ask("POST", "/v1/jobs", job)["id"])


def fill(system: System) -> None:
    """Make jobs in several states, schedules, a paused queue, a workflow and ledger entries."""
    done = [submit(system, type="send_email", payload={"to": f"user{number}@example.com"}) for number in range(3)]
    dead = [submit(system, type="charge_card", payload={"amount": 0}) for _ in range(2)]
    submit(system, type="send_email", delay="1h", tags=["later"])
    submit(system, type="transcode", queue="video")
    for job in (*done, *dead):
        system.ask("GET", f"/v1/jobs/{job}/result?wait=20")
    template = {"type": "gen_report", "payload": {"pages": 1}}
    rule = {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    system.ask("POST", "/v1/schedules", {"name": "nightly", **rule, "job": template})
    system.ask("POST", "/v1/queues/mail/pause", {"reason": "maintenance"})
    nodes = [{"name": "charge", "type": "echo"}, {"name": "mail", "type": "echo", "delay": "1h", "after": ["charge"]}]
    system.ask("POST", "/v1/workflows", {"name": "order 1", "nodes": nodes})


@dataclass
class DashboardPage:
    """The dashboard in a page of a browser."""

    page: Page
    system: System
    #: Parts of console errors that the test causes on purpose.
    expected_complaints: list[str]

    def open(self, path: str = "") -> None:
        """Open a page, and wait until it is shown."""
        self.page.goto(f"{self.system.url}/ui{path}")
        self.ready()

    def ready(self) -> None:
        """Wait until a page has loaded its data."""
        self.page.locator("main h1, main h2, main .empty-title").first.wait_for()
        expect(self.page.locator("main .loading")).to_have_count(0)

    def sees(self, text: str, *, within: str = "body") -> None:
        """Wait until a text is visible."""
        self.page.locator(within).get_by_text(text).first.wait_for()

    def press(self, name: str, *, within: str = "main") -> None:
        """Press a button by its name."""
        self.page.locator(within).get_by_role("button", name=name).first.click()

    def confirm(self, name: str) -> None:
        """Press a button of the open dialog."""
        self.press(name, within="dialog[open]")

    def row(self, text: str) -> Locator:
        """Return the row of a table that has a text."""
        return self.page.locator("main tbody tr", has_text=text).first

    def status(self, job: str, expected: str) -> dict[str, Any]:
        """Wait until a job has a state in the store."""
        return self.system.until(lambda: self.system.job(job), lambda found: found["status"] == expected, seconds=20)
