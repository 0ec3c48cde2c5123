"""The pages of limits and workflows, and edits of jobs: actions there have their effect."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dashboard.dashboard_page import DashboardPage, submit


def test_a_waiting_job_is_changed_and_what_differs_is_shown_first(dashboard: DashboardPage) -> None:
    job = submit(dashboard.system, type="send_email", payload={"to": "ada"}, delay="2h")
    dashboard.open(f"/jobs/{job}")
    dashboard.press("Edit")
    expect(dashboard.page.locator("dialog[open] .diff")).to_contain_text("Nothing differs yet")
    dashboard.page.locator("#edit-payload").fill('{"to": "bob"')
    dashboard.sees("This is not valid JSON.", within="dialog[open]")
    dashboard.page.locator("#edit-payload").fill('{"to": "bob"}')
    dashboard.page.get_by_label("Priority").fill("9")
    expect(dashboard.page.locator("dialog[open] .diff ins").first).to_contain_text("bob")
    dashboard.confirm("Save")
    dashboard.sees("The job is changed")
    found = dashboard.system.job(job)
    assert (found["payload"], found["priority"], found["status"]) == ({"to": "bob"}, 9, "scheduled")


def test_a_dead_job_is_retried_with_changes_as_a_new_job(dashboard: DashboardPage) -> None:
    dead = submit(dashboard.system, type="charge_card", payload={"amount": 0})
    dashboard.status(dead, "dead")
    dashboard.open(f"/jobs/{dead}")
    dashboard.press("Retry with changes")
    dashboard.page.locator("#edit-payload").fill('{"amount": -5}')
    dashboard.confirm("Retry with changes")
    expect(dashboard.page).to_have_url(re.compile(rf"/ui/jobs/(?!{dead})"))
    expect(dashboard.row("made from")).to_contain_text(dead)
    made = dashboard.page.url.rsplit("/", 1)[-1]
    assert (dashboard.system.job(made)["retried_from"], dashboard.system.job(dead)["status"]) == (dead, "dead")


def test_a_breaker_is_opened_kept_closed_and_reset(dashboard: DashboardPage) -> None:
    dashboard.system.ask("POST", "/v1/breakers/stripe/reset", {})
    dashboard.open("/limits")
    expect(dashboard.row("stripe")).to_contain_text("closed: jobs start")
    dashboard.row("stripe").get_by_role("button", name="Open breaker").click()
    dashboard.page.get_by_label("Reason").fill("the bank is away")
    dashboard.page.get_by_label("For how long").fill("1h")
    dashboard.confirm("Open breaker")
    expect(dashboard.row("stripe")).to_contain_text("the bank is away")
    expect(dashboard.row("stripe")).to_contain_text("open: jobs wait")
    job = submit(dashboard.system, type="send_email", breaker="stripe")
    dashboard.status(job, "pending")
    dashboard.row("stripe").get_by_role("button", name="Keep closed").click()
    dashboard.confirm("Keep closed")
    expect(dashboard.row("stripe")).to_contain_text("by hand")
    dashboard.status(job, "completed")
    dashboard.row("stripe").get_by_role("button", name="Reset").click()
    expect(dashboard.row("stripe")).not_to_contain_text("by hand")


def test_a_limit_is_set_closed_opened_and_deleted(dashboard: DashboardPage) -> None:
    dashboard.open("/limits")
    dashboard.sees("No limits yet")
    dashboard.press("New limit")
    dashboard.page.get_by_label("Name", exact=True).fill("queue:narrow")
    dashboard.page.get_by_label("At once").fill("2")
    dashboard.confirm("Save")
    expect(dashboard.row("queue:narrow")).to_contain_text("2 at once")
    dashboard.row("queue:narrow").get_by_role("button", name="Close limit").click()
    dashboard.page.get_by_label("Reason").fill("the bank is away")
    dashboard.confirm("Close limit")
    expect(dashboard.row("queue:narrow")).to_contain_text("the bank is away")
    expect(dashboard.row("queue:narrow").locator("td").nth(6)).to_have_text("when it is opened")
    job = submit(dashboard.system, type="send_email", queue="narrow")
    expect(dashboard.row("queue:narrow").locator("td").nth(5)).to_have_text("1")
    dashboard.row("queue:narrow").get_by_role("button", name="Reopen").click()
    expect(dashboard.row("queue:narrow")).to_contain_text("open")
    dashboard.row("queue:narrow").get_by_role("button", name="Delete").click()
    dashboard.confirm("Delete")
    dashboard.sees("No limits yet")
    dashboard.status(job, "completed")


def test_a_workflow_is_listed_drawn_retried_and_cancelled(dashboard: DashboardPage) -> None:
    dashboard.open("/workflows")
    nodes = [
        {"name": "charge", "type": "charge_card", "payload": {"amount": 0}},
        {"name": "mail", "type": "send_email", "delay": "1h"},
        {"name": "report", "type": "gen_report", "payload": {"pages": 1}, "after": ["charge", "mail"]},
    ]
    made = dashboard.system.ask("POST", "/v1/workflows", {"name": "order 7", "nodes": nodes})
    dashboard.open("/workflows")
    expect(dashboard.row("order 7")).to_be_visible()
    dashboard.page.get_by_role("link", name="order 7").click()
    expect(dashboard.page.get_by_role("img", name="3 nodes and 2 dependencies")).to_be_visible()
    expect(dashboard.row("charge")).to_contain_text("dead")
    expect(dashboard.row("charge")).to_contain_text("permanent")
    expect(dashboard.row("mail")).to_contain_text("due in")
    expect(dashboard.row("report")).to_contain_text("cancelled")
    dashboard.press("Timeline")
    expect(dashboard.page.get_by_role("img", name="When 3 nodes waited and ran")).to_be_visible()
    # The node that ran has a bar, those that did not have none.
    expect(dashboard.page.locator(".workflow-timeline .bar")).to_have_count(1)
    dashboard.press("Graph")
    # Only what the server would do is offered.
    expect(dashboard.row("mail").get_by_role("button")).to_have_count(0)
    expect(dashboard.row("report").get_by_role("button", name="Retry from here")).to_have_count(0)
    dashboard.page.get_by_role("link", name="charge", exact=True).click()
    dashboard.page.get_by_role("link", name="Open its workflow").click()
    first = next(one["job_id"] for one in _nodes(dashboard, made["id"]) if one["name"] == "charge")
    dashboard.row("charge").get_by_role("button", name="Retry from here").click()
    dashboard.confirm("Retry")
    dashboard.system.until(
        lambda: _nodes(dashboard, made["id"]), lambda found: all(one["job_id"] != first for one in found), seconds=20
    )
    dashboard.press("Cancel workflow")
    dashboard.confirm("Cancel workflow")
    dashboard.sees("The workflow is cancelled")
    expect(dashboard.page.get_by_role("button", name="Cancel workflow")).to_have_count(0)


def test_a_node_that_waits_says_for_which_others(dashboard: DashboardPage) -> None:
    nodes = [
        {"name": "first", "type": "send_email", "delay": "1h"},
        {"name": "quick", "type": "send_email"},
        {"name": "last", "type": "send_email", "after": ["first", "quick"]},
    ]
    made = dashboard.system.ask("POST", "/v1/workflows", {"name": "order 9", "nodes": nodes})
    dashboard.open(f"/workflows/{made['id']}")
    expect(dashboard.row("quick")).to_contain_text("completed")
    expect(dashboard.row("last")).to_contain_text("waits for first")
    expect(dashboard.row("last")).not_to_contain_text("waits for first, quick")
    dashboard.system.ask("POST", f"/v1/workflows/{made['id']}/cancel", {})


@pytest.mark.parametrize("page", [("light", 360)], indirect=True)
@pytest.mark.parametrize("path", ["/queues", "/schedules", "/workers", "/dead", "/system"])
def test_on_a_phone_every_value_and_button_of_a_row_is_in_sight(dashboard: DashboardPage, path: str) -> None:
    dead = submit(dashboard.system, type="charge_card", payload={"amount": 0})
    dashboard.status(dead, "dead")
    dashboard.open(path)
    table = dashboard.page.locator("main table.cards").first
    expect(table.locator("tbody tr").first).to_be_visible()
    hidden = table.evaluate(
        "table => [...table.querySelectorAll('td, button')]"
        ".filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.textContent)"
    )
    assert hidden == []
    # The name of the column stands before the value.
    second = table.locator("tbody tr").first.locator("td").nth(1)
    assert second.evaluate("cell => getComputedStyle(cell, '::before').content") not in {'""', "none"}


def test_times_of_a_schedule_are_shown_in_its_own_zone(dashboard: DashboardPage) -> None:
    dashboard.open("/schedules")
    row = dashboard.row("nightly")
    expect(row.locator("time").nth(1)).to_contain_text(re.compile(r" 0[12]:00:00$"))
    dashboard.page.get_by_role("button", name="Show times in UTC").click()
    dashboard.page.get_by_role("button", name="Show times in the schedule's zone").click()
    expect(row.locator("time").nth(1)).to_contain_text("03:00:00 Europe/Berlin")
    # All zones are in the title, whichever is shown.
    title = row.locator("time").nth(1).get_attribute("title") or ""
    assert all(part in title for part in (" local", " UTC", "03:00:00 Europe/Berlin")), title
    row.get_by_role("link", name="nightly", exact=True).click()
    expect(dashboard.page.locator("main time").first).to_contain_text("03:00:00 Europe/Berlin")


def test_past_fire_times_say_how_their_jobs_ended(dashboard: DashboardPage) -> None:
    job = {"type": "charge_card", "payload": {"amount": 0}}
    made = dashboard.system.ask("POST", "/v1/schedules", {"name": "often", "cron": "@every 1s", "job": job})
    dashboard.open(f"/schedules/{made['id']}")
    expect(dashboard.row("dead")).to_be_visible()
    dashboard.system.ask("DELETE", f"/v1/schedules/{made['id']}")


def test_a_failed_node_is_skipped_and_its_job_says_how_it_ended(dashboard: DashboardPage) -> None:
    nodes = [
        {"name": "charge", "type": "charge_card", "payload": {"amount": 0}},
        {"name": "mail", "type": "send_email", "after": ["charge"]},
    ]
    made = dashboard.system.ask("POST", "/v1/workflows", {"name": "order 8", "nodes": nodes})
    dashboard.open(f"/workflows/{made['id']}")
    expect(dashboard.row("mail")).to_contain_text("dependency failed")
    dashboard.row("charge").get_by_role("button", name="Skip").click()
    dashboard.confirm("Skip")
    dashboard.sees("charge is skipped")
    expect(dashboard.row("mail")).to_contain_text("completed")
    expect(dashboard.page.get_by_role("button", name="Retry failed")).to_have_count(0)
    expect(dashboard.page.get_by_role("button", name="Cancel workflow")).to_have_count(0)


def _nodes(dashboard: DashboardPage, workflow: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = dashboard.system.ask("GET", f"/v1/workflows/{workflow}")["nodes"]
    return found
