"""Log lines are seen on the page of a running job, and workers apply orders from the buttons of their page."""

from __future__ import annotations

from itertools import pairwise

from playwright.sync_api import expect

from dashboard.dashboard_page import DashboardPage, submit


def test_the_log_of_a_job_is_shown(dashboard: DashboardPage) -> None:
    job = submit(dashboard.system, type="demo")
    dashboard.open(f"/jobs/{job}")
    log = dashboard.page.get_by_role("log", name="Log")
    expect(log).to_contain_text("step 1 of")


def test_a_worker_is_made_quiet_and_resumed_and_shows_its_stacks(dashboard: DashboardPage) -> None:
    dashboard.open("/workers")
    dashboard.press("Quiet")
    dashboard.confirm("Quiet")
    expect(dashboard.page.get_by_role("button", name="Resume")).to_be_visible()
    dashboard.system.until(
        lambda: dashboard.system.ask("GET", "/v1/workers")["items"],
        lambda workers: any(one["is_quiet"] for one in workers),
    )
    dashboard.press("Resume")
    dashboard.system.until(
        lambda: dashboard.system.ask("GET", "/v1/workers")["items"],
        lambda workers: not any(one["is_quiet"] for one in workers),
    )
    dashboard.press("Stacks")
    expect(dashboard.page.get_by_role("dialog")).to_contain_text("thread MainThread")
    # The dialog stands in a cell whose text is aligned to the right.
    expect(dashboard.page.locator("dialog pre")).to_have_css("text-align", "left")


def test_the_buttons_of_a_row_stand_apart_and_inside_the_page(dashboard: DashboardPage) -> None:
    """They touched each other, and a wide table pushed the last one out of the window."""
    dashboard.open("/workers")
    buttons = [dashboard.page.get_by_role("button", name=name).first for name in ("Quiet", "Stop", "Stacks")]
    expect(buttons[-1]).to_be_visible()
    boxes = [box for one in buttons if (box := one.bounding_box())]
    assert [left["x"] + left["width"] + 3 < right["x"] for left, right in pairwise(boxes)] == [True, True]
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[-1]["x"] + boxes[-1]["width"] < 1440
