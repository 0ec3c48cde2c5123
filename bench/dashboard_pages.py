"""Measure the dashboard on a store of millions of jobs: every request of every page, and claims while people click.

    python -m bench.dashboard_pages sqlite:///lists.db --finished 5000000 --waiting 1000000 --dead 100000

The store is an address, or `postgres` or `mysql` for a private server that lasts as long as the run.
Fills an empty store (see `bench.list_latency`; with 0 jobs what is there is measured), starts an API process on it,
opens each page in Chromium to learn which requests it makes, and repeats each of them alone. Then one process claims
and completes jobs, first alone and then while others ask for pages as fast as ten people click.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Self

from playwright.sync_api import Request, sync_playwright

from bench.list_latency import fill_store
from bench.servers import Servers
from rota.brokers.in_store import InStoreBroker
from rota.core.decision import decide
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.engine import Engine
from rota.runtime.store import open_store
from servers.private_server import free_port

PAGES: Final = (
    "", "/jobs", "/jobs?status=dead", "/jobs?status=pending", "/jobs?q=-status%3Acompleted%20type%3Atype-3",
    "/jobs?type=rare", "/jobs/{dead}", "/jobs/{waiting}", "/queues", "/limits", "/schedules", "/workflows", "/workers",
    "/dead", "/events", "/system",
)  # fmt: skip
#: What a person does in ten seconds, and how many people do it.
CLICK_SECONDS: Final = 2.0
PEOPLE: Final = 10
BROWSER: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@contextmanager
def api_on(url: str) -> Iterator[str]:
    """Start an API process on a store, and give its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "rota", "api", "--port", str(port), "--store", url])
    try:
        _until(f"{address}/readyz", process)
        _until(f"{address}/v1/overview", process)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _until(url: str, process: subprocess.Popen[bytes]) -> None:
    begun = time.monotonic()
    while process.poll() is None and time.monotonic() - begun < 300:
        try:
            _get(url)
        except OSError:
            time.sleep(0.1)
            continue
        return
    raise SystemExit(f"{url}: no answer")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 - our own server
        content: bytes = response.read()
        return content


def requests_of_pages(address: str) -> dict[str, list[str]]:
    """Open each page in a browser; give the requests that it made."""
    made: dict[str, list[str]] = {}
    ids = {"dead": _first(address, "dead"), "waiting": _first(address, "pending")}
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(BROWSER))
        for page in PAGES:
            tab = browser.new_page()
            asked: list[str] = []
            tab.on("request", partial(_note, asked))
            tab.goto(f"{address}/ui{page.format(**ids)}")
            tab.locator("main h1, main h2, main .empty-title").first.wait_for(timeout=60_000)
            tab.locator("main .loading").first.wait_for(state="detached", timeout=60_000)
            tab.wait_for_timeout(500)
            paths = [url.removeprefix(address) for url in asked if "/ui" not in url and "/stream" not in url]
            made[page or "/"] = sorted(set(paths))
            tab.close()
        browser.close()
    return made


def _note(asked: list[str], request: Request) -> None:
    if request.method == "GET":
        asked.append(request.url)


def _first(address: str, status: str) -> str:
    items = json.loads(_get(f"{address}/v1/jobs?status={status}&limit=1"))["items"]
    return str(items[0]["id"]) if items else "0"


def measure_requests(address: str, pages: dict[str, list[str]], rounds: int) -> float:
    """Print how long each request takes; give the worst median in milliseconds."""
    worst = 0.0
    print(f"{'request':95} {'median ms':>9} {'worst ms':>9}")
    for path in sorted({path for paths in pages.values() for path in paths}):
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            _get(address + path)
            times.append((time.perf_counter() - begun) * 1000)
            # Longer than answers are shared, so that every round queries the store.
            time.sleep(1.1)
        worst = max(worst, statistics.median(times))
        print(f"{path[:95]:95} {statistics.median(times):9.1f} {max(times):9.1f}", flush=True)
    return worst


class Clickers:
    """Send the requests of a random page, as users do."""

    def __init__(self, address: str, pages: dict[str, list[str]]) -> None:
        self._address, self._pages = address, list(pages.values())
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._click) for _ in range(PEOPLE)]
        self.count = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _click(self) -> None:
        while not self._stop.wait(random.uniform(0.5, 1.5) * CLICK_SECONDS):
            for path in random.choice(self._pages):
                _get(self._address + path)
                self.count += 1


async def claim_times(url: str, count: int) -> list[float]:
    """Claim and complete jobs one after another, as a worker does; give the times of the claims in milliseconds."""
    store = await open_store(url)
    engine = Engine(store, InStoreBroker(store))
    worker = WorkerId("bench", "boot")
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        (job,) = await store.claim(Claim(worker, limit=1, queues=("default",)))
        times.append((time.perf_counter() - begun) * 1000)
        inputs = engine.leases.inputs_for(job, await store.time())
        await engine.leases.write_back([job], [decide(job, Succeeded(), inputs)])
        await asyncio.sleep(0.01)
    await store.close()
    return sorted(times)


def p99(times: list[float]) -> float:
    return times[int(len(times) * 0.99)]


def measure_claims(url: str, address: str, pages: dict[str, list[str]], count: int) -> None:
    asyncio.run(claim_times(url, count // 5))
    alone, among = [], []
    # Alternately, so that what else happens on the machine meets both.
    for _ in range(3):
        alone += asyncio.run(claim_times(url, count // 3))
        with Clickers(address, pages) as clickers:
            among += asyncio.run(claim_times(url, count // 3))
    first, second = p99(sorted(alone)), p99(sorted(among))
    print(f"claims alone: median {statistics.median(alone):.2f} ms, p99 {first:.2f} ms")
    print(f"claims while {PEOPLE} people click: median {statistics.median(among):.2f} ms, p99 {second:.2f} ms")
    print(f"p99 ratio {second / first:.2f}; {clickers.count} requests in the last round")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="its address: sqlite:///…, postgresql://…, mysql://…; or postgres, mysql")
    for name, default in (("finished", 5_000_000), ("waiting", 1_000_000), ("dead", 100_000)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"so many {name} jobs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--claims", type=int, default=900, help="0 measures none")
    options = parser.parse_args()
    servers = Servers()
    try:
        if options.store in _OWN_SERVERS:
            options.store = _OWN_SERVERS[options.store](servers)
        run(options)
    finally:
        servers.close()


_OWN_SERVERS: Final = {"postgres": Servers.new_postgres_database, "mysql": Servers.new_mariadb_database}


def run(options: argparse.Namespace) -> None:
    counts = (options.finished, options.waiting, 0, options.dead)
    if any(counts):
        asyncio.run(_prepare(options.store, counts))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with api_on(options.store) as address:
        pages = requests_of_pages(address)
        worst = measure_requests(address, pages, options.rounds)
        print(f"worst median {worst:.0f} ms", flush=True)
        if options.claims:
            measure_claims(options.store, address, pages, options.claims)
    print(f"load {os.getloadavg()[0]:.1f}")


async def _prepare(url: str, counts: tuple[int, ...]) -> None:
    await (await open_store(url)).close()
    await fill_store(url, counts)


if __name__ == "__main__":
    main()
