"""What the dashboard tells of a job, a schedule, the ledger and the system; histogram, saved views and filters."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect

from dashboard.showing import Shown, submit
from journeys.stage import DEMO, Stage


def _fail_twice(shown: Shown) -> str:
    """Let a job fail by two different errors."""
    stage = shown.stage
    job = submit(stage, type="by_hand", queue="side", max_attempts=3)
    for error in ("no answer from 10.0.0.1", "no answer from 10.0.0.2"):
        claim = {"worker_id": "ada", "boot_id": "boot", "max": 1, "queues": ["side"], "wait": 10}
        (claimed,) = stage.ask("POST", "/v1/leases:claim", claim)["jobs"]
        trace = f'Traceback (most recent call last):\n  File "/app/shop.py", line 4, in call\nTimeoutError: {error}'
        report = {
            "id": claimed["id"],
            "fence": claimed["fence"],
            "outcome": "failed",
            "error": {"kind": "TimeoutError", "message": error, "traceback": trace},
        }
        stage.ask("POST", "/v1/leases:settle", {"reports": [report]})
        stage.ask("POST", f"/v1/jobs/{job}/run-now")
    return job


def test_the_errors_of_attempts_are_compared_and_a_job_is_put_off_and_duplicated(shown: Shown) -> None:
    job = _fail_twice(shown)
    page = shown.page
    shown.open(f"/jobs/{job}")
    shown.sees("no answer from 10.0.0.2")
    shown.press("Compare with attempt 1")
    expect(page.locator(".trace .diff-removed").first).to_contain_text("10.0.0.1")
    expect(page.locator(".trace .diff-added").first).to_contain_text("10.0.0.2")
    page.keyboard.press("[")
    shown.sees("no answer from 10.0.0.1", within=".bad")
    shown.sees("jobs.run_now", within="main")
    shown.press("Snooze")
    page.get_by_label("Delay").fill("2h")
    shown.confirm("Snooze")
    shown.sees("The job waits for 2h")
    shown.stage.until(lambda: shown.stage.job(job), lambda found: found["status"] in {"scheduled", "retrying"})
    shown.press("Duplicate")
    shown.confirm("Duplicate")
    expect(page).not_to_have_url(re.compile(job))
    shown.sees("made from")


def test_a_payload_is_checked_against_what_workers_expect(shown: Shown) -> None:
    dead = shown.stage.ask("GET", "/v1/jobs?status=dead&type=charge_card")["items"][0]["id"]
    shown.open(f"/jobs/{dead}")
    shown.press("Retry with changes")
    shown.sees("Workers expect:", within="dialog[open]")
    shown.page.locator("#edit-payload").fill('{"amount": "much"}')
    shown.sees("payload.amount: ", within="dialog[open]")
    shown.page.keyboard.press("Escape")


def test_the_palette_does_what_can_be_done_everywhere(shown: Shown) -> None:
    shown.open()
    for text, seen in (("submit a", "Submit a job"), ("new sch", "New schedule")):
        shown.page.keyboard.press("Control+k")
        shown.page.get_by_role("combobox", name="Search").fill(text)
        shown.page.keyboard.press("Enter")
        shown.sees(seen, within="dialog[open] h2")
        shown.page.keyboard.press("Escape")


def test_the_jobs_around_a_job_are_named(shown: Shown) -> None:
    (workflow, *_) = shown.stage.ask("GET", "/v1/workflows")["items"]
    nodes = shown.stage.ask("GET", f"/v1/workflows/{workflow['id']}")["nodes"]
    shown.open(f"/jobs/{nodes[0]['job_id']}")
    row = shown.row("runs after success")
    expect(row).to_contain_text(nodes[1]["job_id"])
    shown.sees("node charge")


def test_dragging_over_the_histogram_filters_and_a_filter_is_saved_as_a_view(shown: Shown) -> None:
    page = shown.page
    for _ in range(3):
        submit(shown.stage, type="counted", delay="2h", tags=["histogram"])
    shown.open("/jobs?tag=histogram")
    shown.sees("3 jobs by the time they were created")
    shown.press("Table")
    expect(page.locator(".histogram-table tbody tr").first).to_contain_text(re.compile("[123]"))
    shown.press("Chart")
    area = page.locator(".histogram-bars").bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 2, area["y"] + 20)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 20)
    page.mouse.up()
    expect(page).to_have_url(re.compile("since=.*until="))
    expect(page.locator("main .card:last-of-type tbody tr, main .card tbody tr").first).to_contain_text("counted")
    shown.press("Save view")
    page.get_by_label("Name").fill("counted ones")
    shown.confirm("Save view")
    page.goto(f"{shown.stage.url}/ui/jobs")
    page.get_by_role("link", name="counted ones").click()
    expect(page).to_have_url(re.compile("tag=histogram"))
    (view,) = shown.stage.ask("GET", "/v1/views")["items"]
    assert (view["name"], view["is_shared"], "tag=histogram" in view["query"]) == ("counted ones", True, True)
    shown.press("Edit views")
    shown.press("Remove view counted ones")
    expect(page.get_by_role("link", name="counted ones")).to_have_count(0)
    shown.press("Undo", within="body")
    expect(page.get_by_role("link", name="counted ones")).to_be_visible()


def test_schedules_show_their_runs_and_what_the_clock_does_to_them(shown: Shown) -> None:
    rule = {
        "cron": "30 2 * * *",
        "zone": "Europe/Berlin",
        "job": {"type": "send_email", "payload": {"to": "a@b.example"}},
    }
    made = shown.stage.ask("POST", "/v1/schedules", {"name": "early", **rule})
    stretch = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z"}
    shown.stage.ask("POST", f"/v1/schedules/{made['id']}/backfill", stretch)
    shown.open("/schedules")
    expect(shown.row("early").locator(".run-strip i")).to_have_count(2)
    shown.press("7d")
    expect(shown.page.locator(".timeline .tick").first).to_be_attached()
    shown.open(f"/schedules/{made['id']}")
    shown.sees("02:30 does not exist on")
    shown.stage.ask("DELETE", f"/v1/schedules/{made['id']}")


def test_the_ledger_is_filtered_exported_and_verified(shown: Shown) -> None:
    shown.open("/events")
    expect(shown.row("queues.pause")).to_contain_text("mail")
    action = shown.page.get_by_label("Action", exact=True)
    action.fill("schedules.*")
    action.press("Enter")
    expect(shown.page).to_have_url(re.compile("action="))
    expect(shown.page.locator("main table").first).not_to_contain_text("queues.pause")
    shown.press("Verify")
    shown.sees("The ledger is intact")
    with shown.page.expect_download() as download:
        shown.press("Export")
    assert "schedules.create" in download.value.path().read_text()


def test_the_lead_is_transferred_to_another_scheduler(shown: Shown) -> None:
    stage = shown.stage
    before = stage.until(lambda: stage.ask("GET", "/v1/cluster")["current_leader"], bool)
    second = stage.start("scheduler", "--store", stage.store, cwd=DEMO)
    try:
        stage.until(lambda: len(schedulers(stage)), lambda count: count == 2)
        shown.open("/system")
        shown.press("Make leader")
        shown.confirm("Make leader")
        shown.sees("leads instead of")
        (other,) = schedulers(stage) - {before}
        stage.until(lambda: stage.ask("GET", "/v1/cluster")["current_leader"], lambda name: name == other)
        expect(shown.row("scheduler Leader")).to_contain_text(other)
    finally:
        os.killpg(second.pid, signal.SIGTERM)
        second.wait()
    stage.until(lambda: stage.ask("GET", "/v1/cluster")["current_leader"], lambda name: name == before)


def schedulers(stage: Stage) -> set[str]:
    return {one["worker_id"] for one in stage.ask("GET", "/v1/cluster")["members"] if one["role"] == "scheduler"}


def test_the_system_tells_its_checks_sizes_settings_and_leaders(shown: Shown) -> None:
    shown.open("/system")
    shown.sees("no_worker_for_queue")
    shown.press("All checks")
    expect(shown.row("the store takes writes")).to_contain_text("ok")
    shown.sees("all applied")
    expect(shown.row("port")).to_contain_text(str(shown.stage.port))
    shown.press("All settings")
    expect(shown.row("poll_interval")).to_be_visible()


def test_queues_tell_their_rates_and_who_paused_them(shown: Shown) -> None:
    shown.open("/queues")
    expect(shown.row("maintenance")).to_contain_text("mail")
    expect(shown.row("maintenance")).to_contain_text("by ")
    expect(shown.page.locator("main th", has_text="In, out")).to_be_visible()


def test_columns_are_chosen_kept_by_the_browser_and_shared_by_the_address(shown: Shown) -> None:
    page = shown.page
    submit(shown.stage, type="tagged", delay="2h", tags=["blue"], priority=9)
    shown.open("/jobs?type=tagged")
    head = page.locator("main table").last.locator("thead th")
    expect(head).to_have_text(["", "State", "Type", "Id", "Queue", "Attempts", "When", "Took", "Error"])
    shown.press("Columns")
    for name in ("State", "Id", "Queue", "Attempts", "When", "Took", "Error"):
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
    for name in ("Tags", "Priority"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    expect(page.get_by_role("checkbox", name="Type", exact=True)).to_be_disabled()
    shown.confirm("Close")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    expect(shown.row("tagged")).to_contain_text("blue")
    expect(page).to_have_url(re.compile(r"columns=type,priority,tags"))
    # The browser keeps them: another list shows them too, and its address names them.
    page.goto(f"{shown.stage.url}/ui/jobs?status=scheduled")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    expect(page).to_have_url(re.compile(r"status=scheduled&columns=type,priority,tags"))
    page.get_by_role("link", name="All", exact=True).click()
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    # An address that somebody else sent wins over them, and does not replace them.
    shown.open("/jobs?type=tagged&columns=queue,nonsense")
    expect(head).to_have_text(["", "Type", "Queue"])
    shown.open("/jobs?type=tagged")
    expect(head).to_have_text(["", "Type", "Priority", "Tags"])
    shown.press("Columns")
    shown.confirm("Usual columns")
    shown.confirm("Close")
    expect(page).to_have_url(re.compile(r"/jobs\?type=tagged$"))
    expect(head).to_have_count(9)


def test_of_a_long_list_only_the_rows_near_the_screen_are_drawn(shown: Shown) -> None:
    page, stage = shown.page, shown.stage
    jobs = [{"type": "row", "queue": "long", "delay": "9h", "tags": ["long"]}] * 700
    oldest = min(one["id"] for one in stage.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"])
    shown.open("/jobs?tag=long")
    shown.press("Load more")
    shown.sees("600 jobs shown")
    shown.press("Load more")
    shown.sees("700 jobs shown")
    rows = page.locator("main tbody tr[data-job]")
    assert rows.count() < 250
    expect(page.locator(f"tr[data-job='{oldest}']")).to_have_count(0)
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(f"tr[data-job='{oldest}']")).to_be_in_viewport()
    assert rows.count() < 250
    page.evaluate("window.scrollTo(0, 0)")
    page.keyboard.press("j")
    page.keyboard.press("x")
    shown.sees("1 job selected")
    expect(rows.first).to_have_class(re.compile("selected"))
