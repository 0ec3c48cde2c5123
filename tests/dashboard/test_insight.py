"""What the dashboard shows of a job, a schedule, the ledger and the system; histogram, saved views and filters."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect

from dashboard.dashboard_page import DashboardPage, submit
from journeys.system import DEMO, System


def _fail_twice(dashboard: DashboardPage) -> str:
    """Let a job fail by two different errors."""
    system = dashboard.system
    job = submit(system, type="by_hand", queue="side", max_attempts=3)
    for error in ("no answer from 10.0.0.1", "no answer from 10.0.0.2"):
        claim = {"worker_id": "ada", "boot_id": "boot", "max": 1, "queues": ["side"], "wait": 10}
        (claimed,) = system.ask("POST", "/v1/leases:claim", claim)["jobs"]
        trace = f'Traceback (most recent call last):\n  File "/app/shop.py", line 4, in call\nTimeoutError: {error}'
        report = {
            "id": claimed["id"],
            "fence": claimed["fence"],
            "outcome": "failed",
            "error": {"kind": "TimeoutError", "message": error, "traceback": trace},
        }
        system.ask("POST", "/v1/leases:settle", {"reports": [report]})
        system.ask("POST", f"/v1/jobs/{job}/run-now")
    return job


def test_the_errors_of_attempts_are_compared_and_a_job_is_put_off_and_duplicated(dashboard: DashboardPage) -> None:
    job = _fail_twice(dashboard)
    page = dashboard.page
    dashboard.open(f"/jobs/{job}")
    dashboard.sees("no answer from 10.0.0.2")
    dashboard.press("Compare with attempt 1")
    expect(page.locator(".trace .diff-removed").first).to_contain_text("10.0.0.1")
    expect(page.locator(".trace .diff-added").first).to_contain_text("10.0.0.2")
    page.keyboard.press("[")
    dashboard.sees("no answer from 10.0.0.1", within=".bad")
    dashboard.sees("jobs.run_now", within="main")
    dashboard.press("Snooze")
    page.get_by_label("Delay").fill("2h")
    dashboard.confirm("Snooze")
    dashboard.sees("The job waits for 2h")
    dashboard.system.until(
        lambda: dashboard.system.job(job), lambda found: found["status"] in {"scheduled", "retrying"}
    )
    dashboard.press("Duplicate")
    dashboard.confirm("Duplicate")
    expect(page).not_to_have_url(re.compile(job))
    dashboard.sees("made from")


def test_a_payload_is_checked_against_what_workers_expect(dashboard: DashboardPage) -> None:
    dead = dashboard.system.ask("GET", "/v1/jobs?status=dead&type=charge_card")["items"][0]["id"]
    dashboard.open(f"/jobs/{dead}")
    dashboard.press("Retry with changes")
    dashboard.sees("Workers expect:", within="dialog[open]")
    dashboard.page.locator("#edit-payload").fill('{"amount": "much"}')
    dashboard.sees("payload.amount: ", within="dialog[open]")
    dashboard.page.keyboard.press("Escape")


def test_the_palette_does_what_can_be_done_everywhere(dashboard: DashboardPage) -> None:
    dashboard.open()
    for text, seen in (("submit a", "Submit a job"), ("new sch", "New schedule")):
        dashboard.page.keyboard.press("Control+k")
        dashboard.page.get_by_role("combobox", name="Search").fill(text)
        dashboard.page.keyboard.press("Enter")
        dashboard.sees(seen, within="dialog[open] h2")
        dashboard.page.keyboard.press("Escape")


def test_the_jobs_around_a_job_are_named(dashboard: DashboardPage) -> None:
    (workflow, *_) = dashboard.system.ask("GET", "/v1/workflows")["items"]
    nodes = dashboard.system.ask("GET", f"/v1/workflows/{workflow['id']}")["nodes"]
    dashboard.open(f"/jobs/{nodes[0]['job_id']}")
    row = dashboard.row("runs after success")
    expect(row).to_contain_text(nodes[1]["job_id"])
    dashboard.sees("node charge")


def test_dragging_over_the_histogram_filters_and_a_filter_is_saved_as_a_view(dashboard: DashboardPage) -> None:
    page = dashboard.page
    for _ in range(3):
        submit(dashboard.system, type="counted", delay="2h", tags=["histogram"])
    dashboard.open("/jobs?tag=histogram")
    dashboard.sees("3 jobs by the time they were created")
    dashboard.press("Table")
    expect(page.locator(".histogram-table tbody tr").first).to_contain_text(re.compile("[123]"))
    dashboard.press("Chart")
    area = page.locator(".histogram-bars").bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 2, area["y"] + 20)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 20)
    page.mouse.up()
    expect(page).to_have_url(re.compile("since=.*until="))
    expect(page.locator("main .card:last-of-type tbody tr, main .card tbody tr").first).to_contain_text("counted")
    dashboard.press("Save view")
    page.get_by_label("Name").fill("counted ones")
    dashboard.confirm("Save view")
    page.goto(f"{dashboard.system.url}/ui/jobs")
    page.get_by_role("link", name="counted ones").click()
    expect(page).to_have_url(re.compile("tag=histogram"))
    (view,) = dashboard.system.ask("GET", "/v1/views")["items"]
    assert (view["name"], view["is_shared"], "tag=histogram" in view["query"]) == ("counted ones", True, True)
    dashboard.press("Edit views")
    dashboard.press("Remove view counted ones")
    expect(page.get_by_role("link", name="counted ones")).to_have_count(0)
    dashboard.press("Undo", within="body")
    expect(page.get_by_role("link", name="counted ones")).to_be_visible()


def test_schedules_show_their_runs_and_what_the_clock_does_to_them(dashboard: DashboardPage) -> None:
    rule = {
        "cron": "30 2 * * *",
        "zone": "Europe/Berlin",
        "job": {"type": "send_email", "payload": {"to": "a@b.example"}},
    }
    made = dashboard.system.ask("POST", "/v1/schedules", {"name": "early", **rule})
    stretch = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z"}
    dashboard.system.ask("POST", f"/v1/schedules/{made['id']}/backfill", stretch)
    dashboard.open("/schedules")
    expect(dashboard.row("early").locator(".run-strip i")).to_have_count(2)
    dashboard.press("7d")
    expect(dashboard.page.locator(".timeline .tick").first).to_be_attached()
    dashboard.open(f"/schedules/{made['id']}")
    dashboard.sees("02:30 does not exist on")
    dashboard.system.ask("DELETE", f"/v1/schedules/{made['id']}")


def test_the_ledger_is_filtered_exported_and_verified(dashboard: DashboardPage) -> None:
    dashboard.open("/events")
    expect(dashboard.row("queues.pause")).to_contain_text("mail")
    action = dashboard.page.get_by_label("Action", exact=True)
    action.fill("schedules.*")
    action.press("Enter")
    expect(dashboard.page).to_have_url(re.compile("action="))
    expect(dashboard.page.locator("main table").first).not_to_contain_text("queues.pause")
    dashboard.press("Verify")
    dashboard.sees("The ledger is intact")
    with dashboard.page.expect_download() as download:
        dashboard.press("Export")
    assert "schedules.create" in download.value.path().read_text()


def test_the_lead_is_transferred_to_another_scheduler(dashboard: DashboardPage) -> None:
    system = dashboard.system
    before = system.until(lambda: system.ask("GET", "/v1/cluster")["current_leader"], bool)
    second = system.start("scheduler", "--store", system.store, cwd=DEMO)
    try:
        system.until(lambda: len(schedulers(system)), lambda count: count == 2)
        dashboard.open("/system")
        dashboard.press("Make leader")
        dashboard.confirm("Make leader")
        dashboard.sees("leads instead of")
        (other,) = schedulers(system) - {before}
        system.until(lambda: system.ask("GET", "/v1/cluster")["current_leader"], lambda name: name == other)
        expect(dashboard.row("scheduler Leader")).to_contain_text(other)
    finally:
        os.killpg(second.pid, signal.SIGTERM)
        second.wait()
    system.until(lambda: system.ask("GET", "/v1/cluster")["current_leader"], lambda name: name == before)


def schedulers(system: System) -> set[str]:
    return {one["worker_id"] for one in system.ask("GET", "/v1/cluster")["members"] if one["role"] == "scheduler"}


def test_the_system_tells_its_checks_sizes_settings_and_leaders(dashboard: DashboardPage) -> None:
    dashboard.open("/system")
    dashboard.sees("no_worker_for_queue")
    dashboard.press("All checks")
    expect(dashboard.row("the store takes writes")).to_contain_text("ok")
    dashboard.sees("all applied")
    expect(dashboard.row("port")).to_contain_text(str(dashboard.system.port))
    dashboard.press("All settings")
    expect(dashboard.row("poll_interval")).to_be_visible()


def test_queues_tell_their_rates_and_who_paused_them(dashboard: DashboardPage) -> None:
    dashboard.open("/queues")
    expect(dashboard.row("maintenance")).to_contain_text("mail")
    expect(dashboard.row("maintenance")).to_contain_text("by ")
    expect(dashboard.page.locator("main th", has_text="In, out")).to_be_visible()


def test_columns_are_chosen_kept_by_the_browser_and_shared_by_the_address(dashboard: DashboardPage) -> None:
    page = dashboard.page
    submit(dashboard.system, type="tagged", delay="2h", tags=["blue"], priority=9)
    dashboard.open("/jobs?type=tagged")
    head = page.locator("main table").last.locator("thead th")
    expect(head).to_have_text(["", "State", "Type", "Id", "Queue", "Attempts", "When", "Took", "Error"])
    dashboard.press("Columns")
    for name in ("State", "Id", "Queue", "Attempts", "When", "Took", "Error"):
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
    for name in ("Tags", "Priority"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    expect(page.get_by_role("checkbox", name="Type", exact=True)).to_be_disabled()
    dashboard.confirm("Close")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    expect(dashboard.row("tagged")).to_contain_text("blue")
    expect(page).to_have_url(re.compile(r"columns=type,priority,tags"))
    # The browser keeps them: another list shows them too, and its address names them.
    page.goto(f"{dashboard.system.url}/ui/jobs?status=scheduled")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    expect(page).to_have_url(re.compile(r"status=scheduled&columns=type,priority,tags"))
    page.get_by_role("link", name="All", exact=True).click()
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    # An address that somebody else sent wins over them, and does not replace them.
    dashboard.open("/jobs?type=tagged&columns=queue,nonsense")
    expect(head).to_have_text(["", "Type", "Queue"])
    dashboard.open("/jobs?type=tagged")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    dashboard.press("Columns")
    dashboard.confirm("Usual columns")
    dashboard.confirm("Close")
    expect(page).to_have_url(re.compile(r"/jobs\?type=tagged$"))
    expect(head).to_have_count(9)


def test_of_a_long_list_only_the_rows_near_the_screen_are_drawn(dashboard: DashboardPage) -> None:
    page, system = dashboard.page, dashboard.system
    jobs = [{"type": "row", "queue": "long", "delay": "9h", "tags": ["long"]}] * 700
    oldest = min(one["id"] for one in system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"])
    dashboard.open("/jobs?tag=long")
    dashboard.press("Load more")
    dashboard.sees("600 jobs shown")
    dashboard.press("Load more")
    dashboard.sees("700 jobs shown")
    rows = page.locator("main tbody tr[data-job]")
    assert rows.count() < 250
    expect(page.locator(f"tr[data-job='{oldest}']")).to_have_count(0)
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(f"tr[data-job='{oldest}']")).to_be_in_viewport()
    assert rows.count() < 250
    page.evaluate("window.scrollTo(0, 0)")
    page.keyboard.press("j")
    page.keyboard.press("x")
    dashboard.sees("1 job selected")
    expect(rows.first).to_have_class(re.compile("selected"))
