"""Rota, through its Python API and its command line; store, broker or API come from the environment."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark, note
from rota import Rota
from rota.core.lifecycle import State

STORE: Final = variable("STORE")
PORT: Final = variable("PORT")
IS_HTTP: Final = variable("OVER") == "http"
_START_SECONDS: Final = 60.0

app = Rota(f"http://127.0.0.1:{PORT}" if IS_HTTP else STORE)


@app.task
async def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@app.task
async def nap(number: int) -> None:
    note("start", number)
    await asyncio.sleep(1)
    note("end", number)


class Client(System):
    package = "rota"
    keeps = "the job with payload, result, times and attempts"
    loses = "nothing: every commit is on the disk, and a dead worker's jobs run again"
    can_submit_many = True
    is_shared = True
    has_plain_way = True

    async def open(self) -> None:
        if IS_HTTP:
            await asyncio.to_thread(until_up, f"{app.url}/readyz")
        # Links up, and brings the store into its form.
        await app.portal.acall(app.control())

    def close(self) -> None:
        app.close()

    async def submit(self, number: int) -> None:
        await touch.asubmit(number, TEXT)

    def submit_plainly(self, number: int) -> None:
        touch.submit(number, TEXT)

    async def submit_many(self, numbers: Sequence[int]) -> None:
        await app.asubmit_many([touch.call(number, TEXT) for number in numbers])

    async def submit_at(self, number: int, when: float) -> None:
        await touch.using(run_at=datetime.fromtimestamp(when, UTC)).asubmit(number, TEXT)

    async def submit_sleeping(self, number: int) -> None:
        await nap.asubmit(number)

    async def finished(self) -> int:
        control = await app.portal.acall(app.control())
        return (await app.portal.acall(control.census())).total(State.COMPLETED)

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return [rota("standalone", "--store", STORE, "--port", PORT, "--app", APP)]
        slots = "20" if role == "crash" else "200"
        number = 1 if role == "crash" else processes()
        where = ("--api-url", app.url) if IS_HTTP else ("--store", STORE)
        return [rota("worker", *where, "--app", APP, "--concurrency", slots) for _ in range(number)]

    def service_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        if IS_HTTP:
            return [rota("scheduler", "--store", STORE, "--port", PORT)]
        # A broker is filled by a scheduler; without one, workers drain what is due by themselves.
        needed = role in {"idle", "crash"} or (role == "drain" and bool(variable("BROKER")))
        return [rota("scheduler", "--store", STORE)] if needed else []


APP: Final = "bench.systems.rota_client:app"


def rota(*arguments: str) -> list[str]:
    broker = ("--broker", variable("BROKER")) if variable("BROKER") else ()
    return python("-m", "rota", *arguments, *broker, "--log-level", "warning")


def until_up(address: str) -> None:
    """Wait until a server answers."""
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own server
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
