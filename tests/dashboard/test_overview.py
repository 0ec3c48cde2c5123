"""The overview in a browser: idle in words, and what needs attention with its remedy and its page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from journeys.system import open_system


def test_an_idle_deployment_says_so_and_a_problem_leads_to_its_page(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with open_system(tmp_path_factory.mktemp("overview")) as system:
        system.start("standalone", "--port", str(system.port), "--db", "t.db")
        system.until_up()
        page = browser.new_page()
        page.goto(f"{system.url}/ui")
        expect(page.get_by_text("Idle: no job is due or running, and none has ended yet.")).to_be_visible()
        system.ask("POST", "/v1/queues/side/pause", {"reason": "drill"})
        system.ask("POST", "/v1/jobs", {"type": "echo", "queue": "side"})
        expect(page.get_by_text("queue 'side' is paused (drill) and 1 job is due")).to_be_visible(timeout=15_000)
        expect(page.get_by_text("rota queues resume side")).to_be_visible()
        page.get_by_role("link", name="Open").first.click()
        expect(page).to_have_url(re.compile("/ui/queues$"))
        page.close()
