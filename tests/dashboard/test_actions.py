"""Actions in the dashboard have their effect, and changes are shown in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.dashboard_page import LARGE, DashboardPage, submit
from journeys.system import System, open_system


def test_a_job_is_seen_as_it_is_submitted_and_ends(dashboard: DashboardPage) -> None:
    dashboard.open("/jobs?tag=seen-live")
    dashboard.sees("No job matches this filter")
    expect(dashboard.page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    submit(dashboard.system, type="send_email", tags=["seen-live"])
    # Sooner than the list looks again by itself, which is after ten seconds.
    expect(dashboard.row("send_email")).to_contain_text("completed", timeout=8_000)


def test_a_job_is_submitted_by_hand_and_its_payload_shown_exactly(dashboard: DashboardPage) -> None:
    dashboard.open("/jobs")
    dashboard.press("Submit job")
    dashboard.page.get_by_label("Type").fill("echo")
    dashboard.page.get_by_label("Payload").fill(f'{{"n": {LARGE}')
    dashboard.confirm("Submit")
    dashboard.sees("This is not valid JSON.", within="dialog")
    dashboard.page.get_by_label("Payload").fill(f'{{"n": {LARGE}}}')
    dashboard.confirm("Submit")
    drawer = dashboard.page.locator(".drawer")
    expect(drawer.locator(".job-head")).to_contain_text("completed")
    expect(drawer.get_by_label("Payload", exact=True)).to_contain_text(str(LARGE))
    expect(drawer.get_by_label("Result", exact=True)).to_contain_text(str(LARGE))


def test_the_form_offers_known_types_and_says_what_their_handlers_take(dashboard: DashboardPage) -> None:
    dashboard.open("/jobs?submit=1")
    page = dashboard.page
    expect(page.get_by_label("Type")).to_be_focused()
    expect(page.locator("dialog datalist option[value=gen_report]")).to_have_count(1)
    page.get_by_label("Type").fill("gen_report")
    dashboard.sees("pages: integer", within="dialog")
    page.get_by_label("Payload").fill('{"pages": "many"}')
    dashboard.sees("payload.pages: integer is expected", within="dialog")


@pytest.mark.parametrize("happened", [True, False])
def test_a_step_in_doubt_is_resolved(dashboard: DashboardPage, *, happened: bool) -> None:
    system = dashboard.system
    job = submit(system, type="by_hand", queue="doubt", max_attempts=1)
    claim = {"worker_id": "ada", "boot_id": "boot", "max": 1, "queues": ["doubt"], "wait": 10}
    (claimed,) = system.ask("POST", "/v1/leases:claim", claim)["jobs"]
    lease = {"id": job, "fence": claimed["fence"]}
    system.ask("POST", "/v1/leases:step", {**lease, "key": "pay", "act": "intend"})
    dashboard.open(f"/jobs/{job}")
    expect(dashboard.row("pay")).to_contain_text("running")
    report = {**lease, "outcome": "failed", "error": {"kind": "TimeoutError", "message": "no answer"}}
    system.ask("POST", "/v1/leases:settle", {"reports": [report]})
    expect(dashboard.row("pay")).to_contain_text("in doubt")
    dashboard.press("It happened" if happened else "It did not happen")
    if happened:
        dashboard.page.get_by_label("Result", exact=True).fill('{"paid": 1}')
    dashboard.confirm("It happened" if happened else "It did not happen")
    dashboard.sees("Step pay resolved")
    steps = system.ask("GET", f"/v1/jobs/{job}/steps")["items"]
    assert [one["result"] for one in steps] == ([{"paid": 1}] if happened else [])
    # The other tests look at the jobs that died when the store was filled.
    system.ask("DELETE", f"/v1/dead-letters/{job}")


def test_a_deep_link_holds_the_filter_and_the_drawer_and_the_history_works(dashboard: DashboardPage) -> None:
    dead = dashboard.system.ask("GET", "/v1/dead-letters")["items"][0]["id"]
    dashboard.open(f"/jobs?status=dead&type=charge_card&job={dead}")
    dashboard.sees("cannot charge 0", within=".drawer .bad")
    dashboard.page.get_by_role("button", name="Close job").click()
    expect(dashboard.page.locator(".drawer")).to_have_count(0)
    expect(dashboard.page).to_have_url(re.compile(r"/ui/jobs\?status=dead&type=charge_card$"))
    dashboard.page.go_back()
    dashboard.sees("cannot charge 0", within=".drawer .bad")
    dashboard.page.get_by_role("button", name="Remove filter type:charge_card").click()
    expect(dashboard.page).to_have_url(re.compile(r"status=dead"))


def test_why_a_job_waits_is_explained(dashboard: DashboardPage) -> None:
    waiting = dashboard.system.ask("GET", "/v1/jobs?type=transcode")["items"][0]["id"]
    dashboard.open(f"/jobs/{waiting}")
    dashboard.sees("no_live_worker_for_queue")
    dashboard.open()
    dashboard.sees("no live worker takes jobs from queue 'video'")


def test_attempts_are_drawn_and_listed(dashboard: DashboardPage) -> None:
    dead = dashboard.system.ask("GET", "/v1/dead-letters")["items"][0]["id"]
    dashboard.open(f"/jobs/{dead}")
    expect(dashboard.page.get_by_role("img", name=re.compile("^Timeline of 1 attempt"))).to_be_visible()
    expect(dashboard.row("failed for good")).to_contain_text("cannot charge 0")
    dashboard.sees("Traceback")


def test_a_dead_job_is_retried(dashboard: DashboardPage) -> None:
    dead = dashboard.system.ask("GET", "/v1/dead-letters")["items"][0]
    dashboard.open(f"/jobs/{dead['id']}")
    dashboard.press("Retry")
    dashboard.sees("Retried: 1 job")
    dashboard.system.until(lambda: dashboard.system.job(dead["id"]), lambda job: job["fence"] > dead["fence"])
    expect(dashboard.page.get_by_role("region", name="Attempts").locator("tbody tr")).to_have_count(2)


def test_jobs_are_chosen_by_keyboard_and_cancelled_together(dashboard: DashboardPage) -> None:
    jobs = [submit(dashboard.system, type="send_email", delay="2h", tags=["bulk"]) for _ in range(3)]
    dashboard.open("/jobs?tag=bulk")
    expect(dashboard.page.locator("main tbody tr")).to_have_count(3)
    for key in ("j", "x", "j", "x"):
        dashboard.page.keyboard.press(key)
    dashboard.sees("2 jobs selected")
    dashboard.press("Cancel job")
    dashboard.sees("Cancel 2 jobs?", within="dialog")
    dashboard.confirm("Cancel job")
    dashboard.sees("Cancel jobs: 2, beginning in 10 s")
    (operation,) = dashboard.system.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["action"], operation["id_count"], operation["state"]) == ("cancel", 2, "waiting")
    dashboard.system.until(
        lambda: sorted(dashboard.system.job(job)["status"] for job in jobs),
        lambda found: found == ["cancelled", "cancelled", "scheduled"],
        seconds=40,
    )


def test_a_queue_is_paused_with_a_reason_and_resumed(dashboard: DashboardPage) -> None:
    dashboard.open("/queues")
    dashboard.row("default").get_by_role("button", name="Pause").click()
    dashboard.page.get_by_label("Reason").fill("deploy at noon")
    dashboard.confirm("Pause")
    expect(dashboard.row("default")).to_contain_text("deploy at noon")
    assert dashboard.system.ask("GET", "/v1/queues/default")["pause_reason"] == "deploy at noon"
    dashboard.press("Undo", within="body")
    expect(dashboard.row("default")).to_contain_text("active")
    dashboard.row("default").get_by_role("button", name="Pause").click()
    dashboard.confirm("Pause")
    dashboard.row("default").get_by_role("button", name="Resume").click()
    expect(dashboard.row("default")).to_contain_text("active")
    dashboard.open("/events")
    expect(dashboard.row("deploy at noon")).to_contain_text("queues.pause")


def test_a_schedule_is_made_with_a_preview_edited_and_deleted(dashboard: DashboardPage) -> None:
    page = dashboard.page
    # A wrong expression is refused, and a page may ask for a deleted schedule once more before it is left.
    dashboard.expected_complaints += ["/v1/schedules:preview", "/v1/schedules/"]
    dashboard.open("/schedules")
    dashboard.press("New schedule")
    page.get_by_label("Name", exact=True).fill("weekday mail")
    page.get_by_label("Type of job").fill("send_email")
    page.get_by_label("Cron expression").fill("0 25 * * *")
    dashboard.sees("hour", within=".preview .field-error")
    page.get_by_label("Cron expression").fill("0 8 * * 1-5")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    dashboard.sees("weekdays at 08:00", within=".preview")
    expect(page.locator(".preview li")).to_have_count(10)
    page.get_by_label("Cron expression").fill("30 2 * * *")
    dashboard.sees("02:30 does not exist on", within=".preview")
    page.get_by_label("Cron expression").fill("0 8 * * 1-5")
    expect(page.locator(".preview .clock-change")).to_have_count(0)
    dashboard.confirm("Create")
    expect(page.locator("main h1")).to_have_text("weekday mail")
    made = dashboard.system.ask("GET", "/v1/schedules/weekday%20mail")
    assert (made["cron"], made["zone"], made["job"]["type"]) == ("0 8 * * 1-5", "Europe/Berlin", "send_email")
    page.reload()
    dashboard.press("Edit")
    page.get_by_label("Cron expression").fill("@hourly")
    dashboard.confirm("Save")
    dashboard.sees("every hour")
    dashboard.press("Delete")
    dashboard.confirm("Delete")
    expect(page).to_have_url(re.compile("/ui/schedules$"))
    assert "weekday mail" not in str(dashboard.system.ask("GET", "/v1/schedules"))


def test_a_backfill_says_how_many_before_it_makes_any(dashboard: DashboardPage) -> None:
    dashboard.open(f"/schedules/{dashboard.system.ask('GET', '/v1/schedules/nightly')['id']}")
    dashboard.press("Backfill")
    today = datetime.now(UTC).date()
    dashboard.page.get_by_label("From", exact=True).fill(f"{today - timedelta(days=4)}T00:00")
    dashboard.page.get_by_label("To", exact=True).fill(f"{today - timedelta(days=2)}T12:00")
    expect(dashboard.page.locator("dialog[open] .preview li")).to_have_count(3)
    dashboard.confirm("Make 3 jobs")
    dashboard.sees("3 jobs made")
    assert len(dashboard.system.ask("GET", "/v1/jobs?type=gen_report")["items"]) == 3


def test_a_note_on_a_cause_is_written_changed_and_removed(dashboard: DashboardPage) -> None:
    dashboard.open("/dead")
    row = dashboard.row("charge_card").first
    for text, said in (("ask Bob", "Note saved"), ("ask Ann", "Note saved"), ("", "Note removed")):
        row.get_by_role("button", name="Note").click()
        dashboard.page.get_by_label("Note", exact=True).fill(text)
        dashboard.confirm("Save")
        dashboard.sees(said)
        notes = [one["note"] for one in dashboard.system.ask("GET", "/v1/dead-letters/groups")["items"]]
        assert [one["text"] for one in notes if one] == ([text] if text else [])
        if text:
            dashboard.sees(text)


def test_a_group_of_dead_letters_is_discarded_after_a_question(dashboard: DashboardPage) -> None:
    job = submit(dashboard.system, type="nothing_like_it", max_attempts=1, queue="default", expires="0.1s")
    dashboard.system.until(lambda: dashboard.system.job(job), lambda found: found["status"] in {"dead", "cancelled"})
    before = dashboard.system.ask("GET", "/v1/dead-letters/groups")["items"]
    group = next(one for one in before if one["type"] == "charge_card")
    dashboard.open("/dead")
    dashboard.row("charge_card").get_by_role("button", name="Discard all").click()
    dashboard.sees(f"Discard {group['count']} jobs for good?", within="dialog")
    dashboard.page.keyboard.press("Escape")
    assert dashboard.system.ask("GET", "/v1/dead-letters/groups")["items"] == before
    dashboard.row("charge_card").get_by_role("button", name="Discard all").click()
    dashboard.confirm("Discard all")
    dashboard.sees(f"Delete jobs: {group['count']}, beginning in 10 s")
    dashboard.press("Undo", within="body")
    dashboard.sees("Undone; nothing was changed")
    (operation,) = dashboard.system.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["action"], operation["matched"], operation["done"]) == ("delete", group["count"], 0)
    assert group in dashboard.system.ask("GET", "/v1/dead-letters/groups")["items"]


def test_keys_and_the_palette_lead_to_pages(dashboard: DashboardPage) -> None:
    page = dashboard.page
    dashboard.open()
    for keys, title in (("gq", "Queues"), ("gs", "Schedules"), ("gj", "Jobs")):
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator("main h1")).to_have_text(title)
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("status:dead type:charge_card")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/ui/jobs\?status=dead&type=charge_card$"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("workers")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("Workers")


def test_theme_and_zone_are_chosen_and_kept(dashboard: DashboardPage) -> None:
    page = dashboard.page
    dashboard.open("/system")
    page.get_by_role("button", name="System theme").click()
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate("getComputedStyle(document.body.parentElement).colorScheme") == "dark"
    page.get_by_role("button", name="Show times in UTC").click()
    dashboard.sees("UTC", within="main time")
    page.reload()
    dashboard.sees("UTC", within="main time")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_live_updates_can_be_paused(dashboard: DashboardPage) -> None:
    dashboard.open("/jobs?tag=unseen")
    dashboard.page.get_by_role("button", name=re.compile("^Live")).click()
    expect(dashboard.page.get_by_role("button", name=re.compile("^Paused"))).to_be_visible()
    submit(dashboard.system, type="echo", tags=["unseen"])
    dashboard.sees("No job matches this filter")
    dashboard.page.get_by_role("button", name=re.compile("^Paused")).click()
    expect(dashboard.row("echo")).to_contain_text("completed")


def test_a_server_with_a_token_asks_for_it(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_system(tmp_path_factory.mktemp("token")) as system:
        system.start("standalone", "--port", str(system.port), "--db", "t.db", environment={"ROTA_TOKEN": "hush"})
        system.until_up()
        page = browser.new_page()
        signed_in(page, system)
        page.close()


def test_a_user_signs_in_with_a_password_and_sees_no_payloads_as_a_viewer(browser: Browser, tmp_path: Path) -> None:
    with open_system(tmp_path) as system:
        system.start("standalone", "--port", str(system.port), "--db", "t.db", environment={"ROTA_TOKEN": "hush"})
        system.until_up()
        admin = {"Authorization": "Bearer hush"}
        user = {"name": "ada", "role": "viewer", "password": "correct horse battery"}
        system.ask("POST", "/v1/users", user, **admin)
        job = system.ask("POST", "/v1/jobs", {"type": "echo", "payload": "canary-77", "delay": 3600}, **admin)
        page = browser.new_page()
        page.goto(f"{system.url}/ui/jobs/{job['id']}")
        page.get_by_label("a name and a password").check()
        page.get_by_label("Name", exact=True).fill("ada")
        page.get_by_label("Password", exact=True).fill("wrong horse battery")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("The name or the password is wrong.").wait_for()
        page.get_by_label("Password", exact=True).fill("correct horse battery")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("main")).to_contain_text("[redacted]")
        expect(page.locator("main")).not_to_contain_text("canary-77")
        page.close()


def test_a_server_that_is_away_is_seen_and_so_is_its_return(browser: Browser, tmp_path: Path) -> None:
    with open_system(tmp_path) as system:
        command = ("standalone", "--port", str(system.port), "--db", "t.db")
        system.start(*command)
        system.until_up()
        page = browser.new_page()
        page.goto(f"{system.url}/ui")
        expect(page.get_by_text("Nothing needs you")).to_be_visible()
        system.started[-1].terminate()
        system.started[-1].wait(60)
        expect(page.get_by_role("button", name=re.compile("^Stale"))).to_be_visible()
        expect(page.get_by_text("Nothing needs you")).to_have_count(0)
        system.start(*command)
        system.until_up()
        expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible(timeout=30_000)
        expect(page.get_by_text("Nothing needs you")).to_be_visible()
        page.close()


def signed_in(page: Page, system: System) -> None:
    page.goto(f"{system.url}/")
    page.get_by_label("Token", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("The server does not accept this token.").wait_for()
    page.get_by_label("Token", exact=True).fill("hush")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    expect(page.get_by_text("Nothing needs you")).to_be_visible()
    expect(page.locator(".deployment")).to_contain_text("sqlite")
    assert page.url == f"{system.url}/ui"
    page.reload()
    expect(page.get_by_text("Nothing needs you")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("rota_session", True, "Strict")
    assert page.evaluate("document.cookie + JSON.stringify({...sessionStorage, ...localStorage})").count("hush") == 0
    # A session can change something, too.
    page.goto(f"{system.url}/ui/queues")
    assert page.evaluate("fetch('/v1/queues/mail/pause', {method: 'POST'}).then((answer) => answer.status)") == 200
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token", exact=True).wait_for()
    assert page.context.cookies() == []


def test_all_jobs_of_a_search_are_cancelled_after_a_count_and_can_be_taken_back(dashboard: DashboardPage) -> None:
    jobs = [submit(dashboard.system, type="send_email", delay="2h", tags=["whole"]) for _ in range(3)]
    dashboard.open("/jobs?tag=whole")
    expect(dashboard.page.locator("main tbody tr")).to_have_count(3)
    dashboard.press("Cancel all matching")
    dashboard.sees("Cancel jobs: all 3 that match?", within="dialog[open]")
    dashboard.confirm("Cancel jobs")
    dashboard.page.get_by_role("button", name="Undo").click()
    dashboard.sees("Undone; nothing was changed")
    (operation,) = dashboard.system.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["state"], operation["done"]) == ("cancelled", 0)
    assert {dashboard.system.job(job)["status"] for job in jobs} == {"scheduled"}


def test_dead_letters_are_retried_at_a_rate_with_a_canary(dashboard: DashboardPage) -> None:
    job = submit(dashboard.system, type="charge_card", payload={"amount": 0})
    dashboard.status(job, "dead")
    dashboard.open("/dead")
    dashboard.row("charge_card").get_by_role("button", name="Retry all").click()
    dashboard.page.locator("dialog[open]").get_by_label("Rate").fill("100")
    dashboard.page.locator("dialog[open]").get_by_label("Canary").fill("1")
    dashboard.confirm("Retry jobs")
    dashboard.sees("beginning in 10 s")
    listed = dashboard.page.locator(".operation-list li").first
    expect(listed).to_contain_text("begins soon")
    path = "/v1/operations?limit=1"
    ended = dashboard.system.until(
        lambda: dashboard.system.ask("GET", path)["items"][0], lambda one: one["state"] in {"stopped", "completed"}
    )
    assert (ended["rate"], ended["action"]) == (100, "retry")
    expect(listed).to_contain_text(re.compile("(completed|stopped).*100 per second, 1 job first", re.DOTALL))
    expect(listed.get_by_role("button", name="Stop")).to_have_count(0)
    dashboard.open("/events")
    expect(dashboard.page.locator(".operation-list li").first).to_contain_text("100 per second")
    assert ended["done"] >= 1


def test_the_query_bar_takes_the_language_and_completes_it(dashboard: DashboardPage) -> None:
    submit(dashboard.system, type="charge_twice", delay="2h", priority=9)
    dashboard.open("/jobs")
    bar = dashboard.page.get_by_label("Filter jobs")
    bar.fill("-status:completed type:charge_t")
    expect(dashboard.page.locator("datalist option")).to_have_attribute("value", "-status:completed type:charge_twice")
    bar.fill("type:charge_t* -status:completed priority:>8")
    bar.press("Enter")
    expect(dashboard.page.locator("main tbody tr")).to_have_count(1)
    dashboard.sees("charge_twice", within="main tbody")
    dashboard.expected_complaints.append("422")
    bar.fill("type:x -stauts:dead")
    bar.press("Enter")
    dashboard.sees("did you mean 'status'?")
