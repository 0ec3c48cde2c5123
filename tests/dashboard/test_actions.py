"""What an operator does in the dashboard happens, and what happens is seen in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.showing import LARGE, Shown, submit
from journeys.stage import Stage, staged


def test_a_job_is_seen_as_it_is_submitted_and_ends(shown: Shown) -> None:
    shown.open("/jobs?tag=seen-live")
    shown.sees("No job matches this filter")
    expect(shown.page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    submit(shown.stage, type="send_email", tags=["seen-live"])
    # Sooner than the list looks again by itself, which is after ten seconds.
    expect(shown.row("send_email")).to_contain_text("completed", timeout=8_000)


def test_a_job_is_submitted_by_hand_and_its_payload_shown_exactly(shown: Shown) -> None:
    shown.open("/jobs")
    shown.press("Submit job")
    shown.page.get_by_label("Type").fill("echo")
    shown.page.get_by_label("Payload").fill(f'{{"n": {LARGE}')
    shown.confirm("Submit")
    shown.sees("This is not valid JSON.", within="dialog")
    shown.page.get_by_label("Payload").fill(f'{{"n": {LARGE}}}')
    shown.confirm("Submit")
    drawer = shown.page.locator(".drawer")
    expect(drawer.locator(".job-head")).to_contain_text("completed")
    expect(drawer.get_by_label("Payload", exact=True)).to_contain_text(str(LARGE))
    expect(drawer.get_by_label("Result", exact=True)).to_contain_text(str(LARGE))


def test_the_form_offers_known_types_and_says_what_their_handlers_take(shown: Shown) -> None:
    shown.open("/jobs?submit=1")
    page = shown.page
    expect(page.get_by_label("Type")).to_be_focused()
    expect(page.locator("dialog datalist option[value=gen_report]")).to_have_count(1)
    page.get_by_label("Type").fill("gen_report")
    shown.sees("pages: integer", within="dialog")
    page.get_by_label("Payload").fill('{"pages": "many"}')
    shown.sees("payload.pages: integer is expected", within="dialog")


@pytest.mark.parametrize("happened", [True, False])
def test_a_step_in_doubt_is_resolved(shown: Shown, *, happened: bool) -> None:
    stage = shown.stage
    job = submit(stage, type="by_hand", queue="doubt", max_attempts=1)
    claim = {"worker_id": "ada", "boot_id": "boot", "max": 1, "queues": ["doubt"], "wait": 10}
    (claimed,) = stage.ask("POST", "/v1/leases:claim", claim)["jobs"]
    lease = {"id": job, "fence": claimed["fence"]}
    stage.ask("POST", "/v1/leases:step", {**lease, "key": "pay", "act": "intend"})
    shown.open(f"/jobs/{job}")
    expect(shown.row("pay")).to_contain_text("running")
    report = {**lease, "outcome": "failed", "error": {"kind": "TimeoutError", "message": "no answer"}}
    stage.ask("POST", "/v1/leases:settle", {"reports": [report]})
    expect(shown.row("pay")).to_contain_text("in doubt")
    shown.press("It happened" if happened else "It did not happen")
    if happened:
        shown.page.get_by_label("Result", exact=True).fill('{"paid": 1}')
    shown.confirm("It happened" if happened else "It did not happen")
    shown.sees("Step pay resolved")
    steps = stage.ask("GET", f"/v1/jobs/{job}/steps")["items"]
    assert [one["result"] for one in steps] == ([{"paid": 1}] if happened else [])
    # The other tests look at the jobs that died when the store was filled.
    stage.ask("DELETE", f"/v1/dead-letters/{job}")


def test_a_deep_link_holds_the_filter_and_the_drawer_and_the_history_works(shown: Shown) -> None:
    dead = shown.stage.ask("GET", "/v1/dead-letters")["items"][0]["id"]
    shown.open(f"/jobs?status=dead&type=charge_card&job={dead}")
    shown.sees("cannot charge 0", within=".drawer .bad")
    shown.page.get_by_role("button", name="Close job").click()
    expect(shown.page.locator(".drawer")).to_have_count(0)
    expect(shown.page).to_have_url(re.compile(r"/ui/jobs\?status=dead&type=charge_card$"))
    shown.page.go_back()
    shown.sees("cannot charge 0", within=".drawer .bad")
    shown.page.get_by_role("button", name="Remove filter type:charge_card").click()
    expect(shown.page).to_have_url(re.compile(r"status=dead"))


def test_why_a_job_waits_is_explained(shown: Shown) -> None:
    waiting = shown.stage.ask("GET", "/v1/jobs?type=transcode")["items"][0]["id"]
    shown.open(f"/jobs/{waiting}")
    shown.sees("no_live_worker_for_queue")
    shown.open()
    shown.sees("no live worker takes jobs from queue 'video'")


def test_attempts_are_drawn_and_listed(shown: Shown) -> None:
    dead = shown.stage.ask("GET", "/v1/dead-letters")["items"][0]["id"]
    shown.open(f"/jobs/{dead}")
    expect(shown.page.get_by_role("img", name=re.compile("^Timeline of 1 attempt"))).to_be_visible()
    expect(shown.row("failed for good")).to_contain_text("cannot charge 0")
    shown.sees("Traceback")


def test_a_dead_job_is_retried(shown: Shown) -> None:
    dead = shown.stage.ask("GET", "/v1/dead-letters")["items"][0]
    shown.open(f"/jobs/{dead['id']}")
    shown.press("Retry")
    shown.sees("Retried: 1 job")
    shown.stage.until(lambda: shown.stage.job(dead["id"]), lambda job: job["fence"] > dead["fence"])
    expect(shown.page.get_by_role("region", name="Attempts").locator("tbody tr")).to_have_count(2)


def test_jobs_are_chosen_by_keyboard_and_cancelled_together(shown: Shown) -> None:
    jobs = [submit(shown.stage, type="send_email", delay="2h", tags=["bulk"]) for _ in range(3)]
    shown.open("/jobs?tag=bulk")
    expect(shown.page.locator("main tbody tr")).to_have_count(3)
    for key in ("j", "x", "j", "x"):
        shown.page.keyboard.press(key)
    shown.sees("2 jobs selected")
    shown.press("Cancel job")
    shown.sees("Cancel 2 jobs?", within="dialog")
    shown.confirm("Cancel job")
    shown.sees("Cancel jobs: 2, beginning in 10 s")
    (operation,) = shown.stage.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["action"], operation["id_count"], operation["state"]) == ("cancel", 2, "waiting")
    shown.stage.until(
        lambda: sorted(shown.stage.job(job)["status"] for job in jobs),
        lambda found: found == ["cancelled", "cancelled", "scheduled"],
        seconds=40,
    )


def test_a_queue_is_paused_with_a_reason_and_resumed(shown: Shown) -> None:
    shown.open("/queues")
    shown.row("default").get_by_role("button", name="Pause").click()
    shown.page.get_by_label("Reason").fill("deploy at noon")
    shown.confirm("Pause")
    expect(shown.row("default")).to_contain_text("deploy at noon")
    assert shown.stage.ask("GET", "/v1/queues/default")["pause_reason"] == "deploy at noon"
    shown.press("Undo", within="body")
    expect(shown.row("default")).to_contain_text("active")
    shown.row("default").get_by_role("button", name="Pause").click()
    shown.confirm("Pause")
    shown.row("default").get_by_role("button", name="Resume").click()
    expect(shown.row("default")).to_contain_text("active")
    shown.open("/events")
    expect(shown.row("deploy at noon")).to_contain_text("queues.pause")


def test_a_schedule_is_made_with_a_preview_edited_and_deleted(shown: Shown) -> None:
    page = shown.page
    # A wrong expression is refused, and a page may ask for a deleted schedule once more before it is left.
    shown.expected_complaints += ["/v1/schedules:preview", "/v1/schedules/"]
    shown.open("/schedules")
    shown.press("New schedule")
    page.get_by_label("Name", exact=True).fill("weekday mail")
    page.get_by_label("Type of job").fill("send_email")
    page.get_by_label("Cron expression").fill("0 25 * * *")
    shown.sees("hour", within=".preview .field-error")
    page.get_by_label("Cron expression").fill("0 8 * * 1-5")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    shown.sees("weekdays at 08:00", within=".preview")
    expect(page.locator(".preview li")).to_have_count(10)
    page.get_by_label("Cron expression").fill("30 2 * * *")
    shown.sees("02:30 does not exist on", within=".preview")
    page.get_by_label("Cron expression").fill("0 8 * * 1-5")
    expect(page.locator(".preview .clock-change")).to_have_count(0)
    shown.confirm("Create")
    expect(page.locator("main h1")).to_have_text("weekday mail")
    made = shown.stage.ask("GET", "/v1/schedules/weekday%20mail")
    assert (made["cron"], made["zone"], made["job"]["type"]) == ("0 8 * * 1-5", "Europe/Berlin", "send_email")
    page.reload()
    shown.press("Edit")
    page.get_by_label("Cron expression").fill("@hourly")
    shown.confirm("Save")
    shown.sees("every hour")
    shown.press("Delete")
    shown.confirm("Delete")
    expect(page).to_have_url(re.compile("/ui/schedules$"))
    assert "weekday mail" not in str(shown.stage.ask("GET", "/v1/schedules"))


def test_a_backfill_says_how_many_before_it_makes_any(shown: Shown) -> None:
    shown.open(f"/schedules/{shown.stage.ask('GET', '/v1/schedules/nightly')['id']}")
    shown.press("Backfill")
    today = datetime.now(UTC).date()
    shown.page.get_by_label("From", exact=True).fill(f"{today - timedelta(days=4)}T00:00")
    shown.page.get_by_label("To", exact=True).fill(f"{today - timedelta(days=2)}T12:00")
    expect(shown.page.locator("dialog[open] .preview li")).to_have_count(3)
    shown.confirm("Make 3 jobs")
    shown.sees("3 jobs made")
    assert len(shown.stage.ask("GET", "/v1/jobs?type=gen_report")["items"]) == 3


def test_a_note_on_a_cause_is_written_changed_and_removed(shown: Shown) -> None:
    shown.open("/dead")
    row = shown.row("charge_card").first
    for text, said in (("ask Bob", "Note saved"), ("ask Ann", "Note saved"), ("", "Note removed")):
        row.get_by_role("button", name="Note").click()
        shown.page.get_by_label("Note", exact=True).fill(text)
        shown.confirm("Save")
        shown.sees(said)
        notes = [one["note"] for one in shown.stage.ask("GET", "/v1/dead-letters/groups")["items"]]
        assert [one["text"] for one in notes if one] == ([text] if text else [])
        if text:
            shown.sees(text)


def test_a_group_of_dead_letters_is_discarded_after_a_question(shown: Shown) -> None:
    job = submit(shown.stage, type="nothing_like_it", max_attempts=1, queue="default", expires="0.1s")
    shown.stage.until(lambda: shown.stage.job(job), lambda found: found["status"] in {"dead", "cancelled"})
    before = shown.stage.ask("GET", "/v1/dead-letters/groups")["items"]
    group = next(one for one in before if one["type"] == "charge_card")
    shown.open("/dead")
    shown.row("charge_card").get_by_role("button", name="Discard all").click()
    shown.sees(f"Discard {group['count']} jobs for good?", within="dialog")
    shown.page.keyboard.press("Escape")
    assert shown.stage.ask("GET", "/v1/dead-letters/groups")["items"] == before
    shown.row("charge_card").get_by_role("button", name="Discard all").click()
    shown.confirm("Discard all")
    shown.sees(f"Delete jobs: {group['count']}, beginning in 10 s")
    shown.press("Undo", within="body")
    shown.sees("Undone; nothing was changed")
    (operation,) = shown.stage.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["action"], operation["matched"], operation["done"]) == ("delete", group["count"], 0)
    assert group in shown.stage.ask("GET", "/v1/dead-letters/groups")["items"]


def test_keys_and_the_palette_lead_to_pages(shown: Shown) -> None:
    page = shown.page
    shown.open()
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


def test_theme_and_zone_are_chosen_and_kept(shown: Shown) -> None:
    page = shown.page
    shown.open("/system")
    page.get_by_role("button", name="System theme").click()
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate("getComputedStyle(document.body.parentElement).colorScheme") == "dark"
    page.get_by_role("button", name="Show times in UTC").click()
    shown.sees("UTC", within="main time")
    page.reload()
    shown.sees("UTC", within="main time")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_live_updates_can_be_paused(shown: Shown) -> None:
    shown.open("/jobs?tag=unseen")
    shown.page.get_by_role("button", name=re.compile("^Live")).click()
    expect(shown.page.get_by_role("button", name=re.compile("^Paused"))).to_be_visible()
    submit(shown.stage, type="echo", tags=["unseen"])
    shown.sees("No job matches this filter")
    shown.page.get_by_role("button", name=re.compile("^Paused")).click()
    expect(shown.row("echo")).to_contain_text("completed")


def test_a_server_with_a_token_asks_for_it(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with staged(tmp_path_factory.mktemp("token")) as stage:
        stage.start("standalone", "--port", str(stage.port), "--db", "t.db", environment={"ROTA_TOKEN": "hush"})
        stage.until_up()
        page = browser.new_page()
        signed_in(page, stage)
        page.close()


def test_a_user_signs_in_with_a_password_and_sees_no_payloads_as_a_viewer(browser: Browser, tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.start("standalone", "--port", str(stage.port), "--db", "t.db", environment={"ROTA_TOKEN": "hush"})
        stage.until_up()
        admin = {"Authorization": "Bearer hush"}
        user = {"name": "ada", "role": "viewer", "password": "correct horse battery"}
        stage.ask("POST", "/v1/users", user, **admin)
        job = stage.ask("POST", "/v1/jobs", {"type": "echo", "payload": "canary-77", "delay": 3600}, **admin)
        page = browser.new_page()
        page.goto(f"{stage.url}/ui/jobs/{job['id']}")
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
    with staged(tmp_path) as stage:
        command = ("standalone", "--port", str(stage.port), "--db", "t.db")
        stage.start(*command)
        stage.until_up()
        page = browser.new_page()
        page.goto(f"{stage.url}/ui")
        expect(page.get_by_text("Nothing needs you")).to_be_visible()
        stage.started[-1].terminate()
        stage.started[-1].wait(60)
        expect(page.get_by_role("button", name=re.compile("^Stale"))).to_be_visible()
        expect(page.get_by_text("Nothing needs you")).to_have_count(0)
        stage.start(*command)
        stage.until_up()
        expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible(timeout=30_000)
        expect(page.get_by_text("Nothing needs you")).to_be_visible()
        page.close()


def signed_in(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/")
    page.get_by_label("Token", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("The server does not accept this token.").wait_for()
    page.get_by_label("Token", exact=True).fill("hush")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    expect(page.get_by_text("Nothing needs you")).to_be_visible()
    expect(page.locator(".deployment")).to_contain_text("sqlite")
    assert page.url == f"{stage.url}/ui"
    page.reload()
    expect(page.get_by_text("Nothing needs you")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("rota_session", True, "Strict")
    assert page.evaluate("document.cookie + JSON.stringify({...sessionStorage, ...localStorage})").count("hush") == 0
    # A session can change something, too.
    page.goto(f"{stage.url}/ui/queues")
    assert page.evaluate("fetch('/v1/queues/mail/pause', {method: 'POST'}).then((answer) => answer.status)") == 200
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token", exact=True).wait_for()
    assert page.context.cookies() == []


def test_all_jobs_of_a_search_are_cancelled_after_a_count_and_can_be_taken_back(shown: Shown) -> None:
    jobs = [submit(shown.stage, type="send_email", delay="2h", tags=["whole"]) for _ in range(3)]
    shown.open("/jobs?tag=whole")
    expect(shown.page.locator("main tbody tr")).to_have_count(3)
    shown.press("Cancel all matching")
    shown.sees("Cancel jobs: all 3 that match?", within="dialog[open]")
    shown.confirm("Cancel jobs")
    shown.page.get_by_role("button", name="Undo").click()
    shown.sees("Undone; nothing was changed")
    (operation,) = shown.stage.ask("GET", "/v1/operations?limit=1")["items"]
    assert (operation["state"], operation["done"]) == ("cancelled", 0)
    assert {shown.stage.job(job)["status"] for job in jobs} == {"scheduled"}


def test_dead_letters_are_retried_at_a_rate_with_a_canary(shown: Shown) -> None:
    job = submit(shown.stage, type="charge_card", payload={"amount": 0})
    shown.status(job, "dead")
    shown.open("/dead")
    shown.row("charge_card").get_by_role("button", name="Retry all").click()
    shown.page.locator("dialog[open]").get_by_label("Rate").fill("100")
    shown.page.locator("dialog[open]").get_by_label("Canary").fill("1")
    shown.confirm("Retry jobs")
    shown.sees("beginning in 10 s")
    listed = shown.page.locator(".operation-list li").first
    expect(listed).to_contain_text("begins soon")
    path = "/v1/operations?limit=1"
    ended = shown.stage.until(
        lambda: shown.stage.ask("GET", path)["items"][0], lambda one: one["state"] in {"stopped", "completed"}
    )
    assert (ended["rate"], ended["action"]) == (100, "retry")
    expect(listed).to_contain_text(re.compile("(completed|stopped).*100 per second, 1 job first", re.DOTALL))
    expect(listed.get_by_role("button", name="Stop")).to_have_count(0)
    shown.open("/events")
    expect(shown.page.locator(".operation-list li").first).to_contain_text("100 per second")
    assert ended["done"] >= 1


def test_the_query_bar_takes_the_language_and_completes_it(shown: Shown) -> None:
    submit(shown.stage, type="charge_twice", delay="2h", priority=9)
    shown.open("/jobs")
    bar = shown.page.get_by_label("Filter jobs")
    bar.fill("-status:completed type:charge_t")
    expect(shown.page.locator("datalist option")).to_have_attribute("value", "-status:completed type:charge_twice")
    bar.fill("type:charge_t* -status:completed priority:>8")
    bar.press("Enter")
    expect(shown.page.locator("main tbody tr")).to_have_count(1)
    shown.sees("charge_twice", within="main tbody")
    shown.expected_complaints.append("422")
    bar.fill("type:x -stauts:dead")
    bar.press("Enter")
    shown.sees("did you mean 'status'?")
