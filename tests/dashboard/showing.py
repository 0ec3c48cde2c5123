"""What the tests of the dashboard share: the flags of the browser, jobs to look at, and a page to look with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect

from journeys.stage import Stage

BROWSER_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
PATIENCE_MILLISECONDS: Final = 20_000
expect.set_options(timeout=PATIENCE_MILLISECONDS)
#: More than a number of JavaScript holds.
LARGE: Final = 12345678901234567890


def submit(stage: Stage, **job: object) -> str:
    """Submit a job, and give its id."""
    return str(stage.ask("POST", "/v1/jobs", job)["id"])


def fill(stage: Stage) -> None:
    """Put jobs of several states there, schedules, a paused queue and an entry in the ledger."""
    done = [submit(stage, type="send_email", payload={"to": f"user{number}@example.com"}) for number in range(3)]
    dead = [submit(stage, type="charge_card", payload={"amount": 0}) for _ in range(2)]
    submit(stage, type="send_email", delay="1h", tags=["later"])
    submit(stage, type="transcode", queue="video")
    for job in (*done, *dead):
        stage.ask("GET", f"/v1/jobs/{job}/result?wait=20")
    template = {"type": "gen_report", "payload": {"pages": 1}}
    rule = {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    stage.ask("POST", "/v1/schedules", {"name": "nightly", **rule, "job": template})
    stage.ask("POST", "/v1/queues/mail/pause", {"reason": "maintenance"})
    nodes = [{"name": "charge", "type": "echo"}, {"name": "mail", "type": "echo", "delay": "1h", "after": ["charge"]}]
    stage.ask("POST", "/v1/workflows", {"name": "order 1", "nodes": nodes})


@dataclass
class Shown:
    """The dashboard in a page."""

    page: Page
    stage: Stage
    #: Parts of what the browser may complain about here: refusals that the test asks for.
    expected_complaints: list[str]

    def open(self, path: str = "") -> None:
        """Go to a page of it, and wait until it is there."""
        self.page.goto(f"{self.stage.url}/ui{path}")
        self.ready()

    def ready(self) -> None:
        """Wait until a page shows what it was opened for."""
        self.page.locator("main h1, main h2, main .empty-title").first.wait_for()
        expect(self.page.locator("main .loading")).to_have_count(0)

    def sees(self, text: str, *, within: str = "body") -> None:
        """Wait until a text is visible."""
        self.page.locator(within).get_by_text(text).first.wait_for()

    def press(self, name: str, *, within: str = "main") -> None:
        """Press a button by its name."""
        self.page.locator(within).get_by_role("button", name=name).first.click()

    def confirm(self, name: str) -> None:
        """Answer a question."""
        self.press(name, within="dialog[open]")

    def row(self, text: str) -> Locator:
        """Give the row of a table that has a text."""
        return self.page.locator("main tbody tr", has_text=text).first

    def status(self, job: str, expected: str) -> dict[str, Any]:
        """Wait until a job has a state in the store."""
        return self.stage.until(lambda: self.stage.job(job), lambda found: found["status"] == expected, seconds=20)
