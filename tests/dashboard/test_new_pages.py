"""The pages of limits and workflows, and edits of jobs: what an operator does there happens."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dashboard.showing import Shown, submit


def test_a_waiting_job_is_changed_and_what_differs_is_shown_first(shown: Shown) -> None:
    job = submit(shown.stage, type="send_email", payload={"to": "ada"}, delay="2h")
    shown.open(f"/jobs/{job}")
    shown.press("Edit")
    expect(shown.page.locator("dialog[open] .diff")).to_contain_text("Nothing differs yet")
    shown.page.locator("#edit-payload").fill('{"to": "bob"')
    shown.sees("This is not valid JSON.", within="dialog[open]")
    shown.page.locator("#edit-payload").fill('{"to": "bob"}')
    shown.page.get_by_label("Priority").fill("9")
    expect(shown.page.locator("dialog[open] .diff ins").first).to_contain_text("bob")
    shown.confirm("Save")
    shown.sees("The job is changed")
    found = shown.stage.job(job)
    assert (found["payload"], found["priority"], found["status"]) == ({"to": "bob"}, 9, "scheduled")


def test_a_dead_job_is_retried_with_changes_as_a_new_job(shown: Shown) -> None:
    dead = submit(shown.stage, type="charge_card", payload={"amount": 0})
    shown.status(dead, "dead")
    shown.open(f"/jobs/{dead}")
    shown.press("Retry with changes")
    shown.page.locator("#edit-payload").fill('{"amount": -5}')
    shown.confirm("Retry with changes")
    expect(shown.page).to_have_url(re.compile(rf"/ui/jobs/(?!{dead})"))
    expect(shown.row("made from")).to_contain_text(dead)
    made = shown.page.url.rsplit("/", 1)[-1]
    assert (shown.stage.job(made)["retried_from"], shown.stage.job(dead)["status"]) == (dead, "dead")


def test_a_breaker_is_opened_kept_closed_and_reset(shown: Shown) -> None:
    shown.stage.ask("POST", "/v1/breakers/stripe/reset", {})
    shown.open("/limits")
    expect(shown.row("stripe")).to_contain_text("closed: jobs start")
    shown.row("stripe").get_by_role("button", name="Open breaker").click()
    shown.page.get_by_label("Reason").fill("the bank is away")
    shown.page.get_by_label("For how long").fill("1h")
    shown.confirm("Open breaker")
    expect(shown.row("stripe")).to_contain_text("the bank is away")
    expect(shown.row("stripe")).to_contain_text("open: jobs wait")
    job = submit(shown.stage, type="send_email", breaker="stripe")
    shown.status(job, "pending")
    shown.row("stripe").get_by_role("button", name="Keep closed").click()
    shown.confirm("Keep closed")
    expect(shown.row("stripe")).to_contain_text("by hand")
    shown.status(job, "completed")
    shown.row("stripe").get_by_role("button", name="Reset").click()
    expect(shown.row("stripe")).not_to_contain_text("by hand")


def test_a_limit_is_set_closed_opened_and_deleted(shown: Shown) -> None:
    shown.open("/limits")
    shown.sees("No limits yet")
    shown.press("New limit")
    shown.page.get_by_label("Name", exact=True).fill("queue:narrow")
    shown.page.get_by_label("At once").fill("2")
    shown.confirm("Save")
    expect(shown.row("queue:narrow")).to_contain_text("2 at once")
    shown.row("queue:narrow").get_by_role("button", name="Close limit").click()
    shown.page.get_by_label("Reason").fill("the bank is away")
    shown.confirm("Close limit")
    expect(shown.row("queue:narrow")).to_contain_text("the bank is away")
    expect(shown.row("queue:narrow").locator("td").nth(6)).to_have_text("when it is opened")
    job = submit(shown.stage, type="send_email", queue="narrow")
    expect(shown.row("queue:narrow").locator("td").nth(5)).to_have_text("1")
    shown.row("queue:narrow").get_by_role("button", name="Reopen").click()
    expect(shown.row("queue:narrow")).to_contain_text("open")
    shown.row("queue:narrow").get_by_role("button", name="Delete").click()
    shown.confirm("Delete")
    shown.sees("No limits yet")
    shown.status(job, "completed")


def test_a_workflow_is_listed_drawn_retried_and_cancelled(shown: Shown) -> None:
    shown.open("/workflows")
    nodes = [
        {"name": "charge", "type": "charge_card", "payload": {"amount": 0}},
        {"name": "mail", "type": "send_email", "delay": "1h"},
        {"name": "report", "type": "gen_report", "payload": {"pages": 1}, "after": ["charge", "mail"]},
    ]
    made = shown.stage.ask("POST", "/v1/workflows", {"name": "order 7", "nodes": nodes})
    shown.open("/workflows")
    expect(shown.row("order 7")).to_be_visible()
    shown.page.get_by_role("link", name="order 7").click()
    expect(shown.page.get_by_role("img", name="3 nodes and 2 dependencies")).to_be_visible()
    expect(shown.row("charge")).to_contain_text("dead")
    expect(shown.row("charge")).to_contain_text("permanent")
    expect(shown.row("mail")).to_contain_text("due in")
    expect(shown.row("report")).to_contain_text("cancelled")
    shown.press("Timeline")
    expect(shown.page.get_by_role("img", name="When 3 nodes waited and ran")).to_be_visible()
    # The node that ran has a bar, those that did not have none.
    expect(shown.page.locator(".workflow-timeline .bar")).to_have_count(1)
    shown.press("Graph")
    # Only what the server would do is offered.
    expect(shown.row("mail").get_by_role("button")).to_have_count(0)
    expect(shown.row("report").get_by_role("button", name="Retry from here")).to_have_count(0)
    shown.page.get_by_role("link", name="charge", exact=True).click()
    shown.page.get_by_role("link", name="Open its workflow").click()
    first = next(one["job_id"] for one in _nodes(shown, made["id"]) if one["name"] == "charge")
    shown.row("charge").get_by_role("button", name="Retry from here").click()
    shown.confirm("Retry")
    shown.stage.until(
        lambda: _nodes(shown, made["id"]), lambda found: all(one["job_id"] != first for one in found), seconds=20
    )
    shown.press("Cancel workflow")
    shown.confirm("Cancel workflow")
    shown.sees("The workflow is cancelled")
    expect(shown.page.get_by_role("button", name="Cancel workflow")).to_have_count(0)


def test_a_node_that_waits_says_for_which_others(shown: Shown) -> None:
    nodes = [
        {"name": "first", "type": "send_email", "delay": "1h"},
        {"name": "quick", "type": "send_email"},
        {"name": "last", "type": "send_email", "after": ["first", "quick"]},
    ]
    made = shown.stage.ask("POST", "/v1/workflows", {"name": "order 9", "nodes": nodes})
    shown.open(f"/workflows/{made['id']}")
    expect(shown.row("quick")).to_contain_text("completed")
    expect(shown.row("last")).to_contain_text("waits for first")
    expect(shown.row("last")).not_to_contain_text("waits for first, quick")
    shown.stage.ask("POST", f"/v1/workflows/{made['id']}/cancel", {})


@pytest.mark.parametrize("page", [("light", 360)], indirect=True)
@pytest.mark.parametrize("path", ["/queues", "/schedules", "/workers", "/dead", "/system"])
def test_on_a_phone_every_value_and_button_of_a_row_is_in_sight(shown: Shown, path: str) -> None:
    dead = submit(shown.stage, type="charge_card", payload={"amount": 0})
    shown.status(dead, "dead")
    shown.open(path)
    table = shown.page.locator("main table.cards").first
    expect(table.locator("tbody tr").first).to_be_visible()
    hidden = table.evaluate(
        "table => [...table.querySelectorAll('td, button')]"
        ".filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.textContent)"
    )
    assert hidden == []
    # The name of the column stands before the value.
    second = table.locator("tbody tr").first.locator("td").nth(1)
    assert second.evaluate("cell => getComputedStyle(cell, '::before').content") not in {'""', "none"}


def test_times_of_a_schedule_are_shown_in_its_own_zone(shown: Shown) -> None:
    shown.open("/schedules")
    row = shown.row("nightly")
    expect(row.locator("time").nth(1)).to_contain_text(re.compile(r" 0[12]:00:00$"))
    shown.page.get_by_role("button", name="Show times in UTC").click()
    shown.page.get_by_role("button", name="Show times in the schedule's zone").click()
    expect(row.locator("time").nth(1)).to_contain_text("03:00:00 Europe/Berlin")
    # All zones are in the title, whichever is shown.
    title = row.locator("time").nth(1).get_attribute("title") or ""
    assert all(part in title for part in (" local", " UTC", "03:00:00 Europe/Berlin")), title
    row.get_by_role("link", name="nightly", exact=True).click()
    expect(shown.page.locator("main time").first).to_contain_text("03:00:00 Europe/Berlin")


def test_past_fire_times_say_how_their_jobs_ended(shown: Shown) -> None:
    job = {"type": "charge_card", "payload": {"amount": 0}}
    made = shown.stage.ask("POST", "/v1/schedules", {"name": "often", "cron": "@every 1s", "job": job})
    shown.open(f"/schedules/{made['id']}")
    expect(shown.row("dead")).to_be_visible()
    shown.stage.ask("DELETE", f"/v1/schedules/{made['id']}")


def test_a_failed_node_is_skipped_and_its_job_says_how_it_ended(shown: Shown) -> None:
    nodes = [
        {"name": "charge", "type": "charge_card", "payload": {"amount": 0}},
        {"name": "mail", "type": "send_email", "after": ["charge"]},
    ]
    made = shown.stage.ask("POST", "/v1/workflows", {"name": "order 8", "nodes": nodes})
    shown.open(f"/workflows/{made['id']}")
    expect(shown.row("mail")).to_contain_text("dependency failed")
    shown.row("charge").get_by_role("button", name="Skip").click()
    shown.confirm("Skip")
    shown.sees("charge is skipped")
    expect(shown.row("mail")).to_contain_text("completed")
    expect(shown.page.get_by_role("button", name="Retry failed")).to_have_count(0)
    expect(shown.page.get_by_role("button", name="Cancel workflow")).to_have_count(0)


def _nodes(shown: Shown, workflow: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = shown.stage.ask("GET", f"/v1/workflows/{workflow}")["nodes"]
    return found
