"""Texts that would be a script in a careless page are shown as texts, wherever a caller can put one."""

from __future__ import annotations

import contextlib
from urllib.error import HTTPError
from urllib.parse import quote

from playwright.sync_api import expect

from dashboard.dashboard_page import DashboardPage
from journeys.system import System

HOSTILE = "\"'><img src=x onerror=window.owned=1><script>window.owned=1</script><a href=javascript:owned>"
QUEUE = "hostile"
PAGES = (
    "", "/jobs", "/jobs?q={text}", "/jobs?job={job}", "/jobs/{job}", "/jobs/{waiting}", "/queues", "/limits",
    "/schedules", "/schedules/{schedule}", "/workflows", "/workflows/{workflow}", "/workers", "/dead", "/events",
    "/system", "/{text}",
)  # fmt: skip


def write(system: System) -> dict[str, str]:
    """Put the text wherever the API takes one, and give the ids of what was made."""
    options = {"tags": [HOSTILE], "meta": {"note": HOSTILE}, "payload": {HOSTILE: HOSTILE}, "max_attempts": 1}
    waiting = system.ask("POST", "/v1/jobs", {"type": HOSTILE, "queue": QUEUE, "delay": "1h", **options})["id"]
    job = system.ask("POST", "/v1/jobs", {"type": HOSTILE, "queue": QUEUE, "concurrency_key": HOSTILE, **options})["id"]
    worker = {"worker_id": HOSTILE, "boot_id": HOSTILE, "queues": [QUEUE]}
    system.ask("POST", "/v1/workers:beat", {"workers": [{**worker, "host": HOSTILE, "version": HOSTILE}]})
    (claimed,) = system.ask("POST", "/v1/leases:claim", worker)["jobs"]
    assert claimed["id"] == job
    lease = {"id": job, "fence": claimed["fence"]}
    system.ask("POST", "/v1/leases:step", {**lease, "key": HOSTILE, "act": "intend"})
    system.ask("POST", "/v1/leases:step", {**lease, "key": HOSTILE, "act": "conclude", "outcome": '"x"'})
    error = {"kind": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    report = {**lease, "outcome": "failed", "error": error, "progress": HOSTILE, "log_tail": HOSTILE}
    assert system.ask("POST", "/v1/leases:settle", {"reports": [report]})["settled"] == [job]
    template = {"type": HOSTILE, "queue": QUEUE, "payload": HOSTILE}
    schedule = system.ask("POST", "/v1/schedules", {"name": HOSTILE, "cron": "0 3 * * *", "job": template})["id"]
    nodes = [{"name": HOSTILE[:50], "type": HOSTILE, "queue": QUEUE, "delay": "1h"}]
    workflow = system.ask("POST", "/v1/workflows", {"name": HOSTILE, "nodes": nodes})["id"]
    system.ask("POST", f"/v1/queues/{QUEUE}/pause", {"reason": HOSTILE})
    cause = system.ask("GET", "/v1/dead-letters/groups")["items"]
    own = next(one for one in cause if one["type"] == HOSTILE)
    system.ask("PUT", "/v1/dead-letters/groups/note", {
        "type": HOSTILE, "fingerprint": own["fingerprint"], "text": HOSTILE,
    })  # fmt: skip
    # Some names may not have such signs at all.
    for path, body in (
        ("/v1/tokens", {"name": HOSTILE, "role": "viewer"}),
        (f"/v1/events/{quote(HOSTILE, safe='')}", {}),
    ):
        with contextlib.suppress(HTTPError):
            system.ask("POST", path, body)
    return {"job": job, "waiting": waiting, "schedule": schedule, "workflow": workflow, "text": quote(HOSTILE, safe="")}


def test_no_text_of_a_caller_becomes_a_part_of_the_page(dashboard: DashboardPage) -> None:
    """The fixture fails as well if the browser complains, as it does of each script that its policy stops."""
    made = write(dashboard.system)
    shows = 0
    dashboard.expected_complaints.append("422")
    for path in PAGES:
        dashboard.open(path.format(**made))
        assert dashboard.page.evaluate("window.owned") is None, path
        expect(dashboard.page.locator("img[src='x'], script:not([src]), a[href^='javascript']")).to_have_count(0)
        shows += HOSTILE in (dashboard.page.locator("body").text_content() or "")
    assert shows > 8
