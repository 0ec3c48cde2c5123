"""Measure how long a change of another process takes until it is seen in an open page of the dashboard.

    python -m bench.dashboard_live [sqlite:///FILE | postgres] --changes 60

Starts two API processes on an empty store, opens the list of jobs of one of them in Chromium, and submits jobs to the
other one at random moments. The time runs from the answer to the submission until the row is in the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from typing import Final

from playwright.sync_api import sync_playwright

from bench.dashboard_pages import BROWSER, api_on, p99
from bench.servers import Servers
from rota.runtime.store import open_store

_WATCH: Final = """() => {
  window.seen = {};
  const look = () => {
    for (const link of document.querySelectorAll("main tbody a.mono")) window.seen[link.textContent] ??= Date.now();
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def _submit(address: str) -> tuple[str, float]:
    """Submit a job; give its id, and when that was answered, in milliseconds since 1970."""
    body = json.dumps({"type": "seen", "tags": ["seen"], "delay": "2h"}).encode()
    request = urllib.request.Request(f"{address}/v1/jobs", body, {"Content-Type": "application/json"})  # noqa: S310 - ours
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
        found = json.loads(response.read())
    return str(found["id"]), time.time() * 1_000


def times_until_seen(shown: str, changed: str, changes: int) -> list[float]:
    """Submit jobs to one process and watch the page of the other one; give the times in milliseconds."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(BROWSER))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{shown}/ui/jobs?tag=seen")
        page.locator(".live-live").wait_for(timeout=60_000)
        page.evaluate(_WATCH)
        submitted = {}
        for _ in range(changes):
            page.wait_for_timeout(random.uniform(100, 1_200))
            job, at = _submit(changed)
            submitted[job] = at
        page.wait_for_timeout(3_000)
        seen = page.evaluate("window.seen")
        browser.close()
    missing = [job for job in submitted if job not in seen]
    if missing:
        raise SystemExit(f"{len(missing)} of {changes} changes were not seen within 3 s")
    return sorted(max(seen[job] - at, 0.0) for job, at in submitted.items())


async def _make(url: str) -> None:
    await (await open_store(url)).close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", help="its address, or postgres; a new SQLite file if left out")
    parser.add_argument("--changes", type=int, default=60, help="at most 100, a page of the list")
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = Servers()
        stack.callback(servers.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = servers.new_postgres_database() if options.store == "postgres" else options.store
        url = url or f"sqlite:///{folder}/live.db"
        asyncio.run(_make(url))
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        shown, changed = stack.enter_context(api_on(url)), stack.enter_context(api_on(url))
        times = times_until_seen(shown, changed, options.changes)
        middle, late = times[len(times) // 2], times[int(len(times) * 0.95)]
        print(f"a change is seen after p50 {middle:.0f} ms, p95 {late:.0f} ms, p99 {p99(times):.0f} ms")
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
