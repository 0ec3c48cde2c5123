"""Namespaces with real processes: one scheduler with the API for all, and a worker for each."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from journeys.system import System
from rota.runtime.namespace_stores import drop, store_url


@contextmanager
def dropped(system: System, *names: str) -> Iterator[None]:
    """Drop the databases of namespaces: the next test uses the same server."""
    try:
        yield
    finally:
        for process in system.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if "://" in system.store:
            for name in names:
                asyncio.run(drop(store_url(system.store, name)))


def serve(system: System) -> int:
    pid = system.start("scheduler", "--port", str(system.port), "--store", system.store).pid
    system.until_up()
    return pid


def submit(system: System, namespace: str) -> str:
    job = system.ask("POST", "/v1/jobs", {"type": "echo", "payload": namespace}, **{"Rota-Namespace": namespace})
    return str(job["id"])


def status(system: System, namespace: str, job_id: str) -> str:
    return str(system.ask("GET", f"/v1/jobs/{job_id}", **{"Rota-Namespace": namespace})["status"])


@pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb", "cluster"], indirect=True)
def test_each_worker_runs_the_jobs_of_its_namespace_also_after_a_crash(system: System) -> None:
    with dropped(system, "acme", "beta"):
        server = serve(system)
        for name in ("acme", "beta"):
            system.rota("namespaces", "create", name)
        system.start("worker", "--worker-id", "over-http", "--namespace", "acme", "--api-url", system.url)
        system.start("worker", "--worker-id", "on-store", "--namespace", "beta", "--store", system.store)
        left = submit(system, "default")
        for _ in range(2):
            jobs = {name: submit(system, name) for name in ("acme", "beta")}
            for name, job in jobs.items():
                system.until(lambda: status(system, name, job), lambda seen: seen == "completed")  # noqa: B023 - at once
            assert status(system, "default", left) == "pending"
            for name, worker in (("default", None), ("acme", "over-http"), ("beta", "on-store")):
                members = system.ask("GET", "/v1/workers", **{"Rota-Namespace": name})["items"]
                assert {one["worker_id"] for one in members} == ({worker} if worker else set())
            os.killpg(server, signal.SIGKILL)
            server = serve(system)
        refused = system.rota("worker", "--namespace", "gamma", "--store", system.store, code=2)
        assert refused == ""


def test_an_app_runs_in_its_namespace_with_its_schedules(system: System) -> None:
    (system.folder / "shop.py").write_text(
        "from rota import Rota\napp = Rota(name='shop')\n"
        "@app.task(every='1s')\ndef tick() -> str:\n    return 'done'\n",
        encoding="utf-8",
    )
    serve(system)
    system.rota("namespaces", "create", "acme")
    system.start("scheduler", "--namespace", "acme", "--app", "shop:app", "--store", system.store)
    system.start("worker", "--namespace", "acme", "--app", "shop:app", "--store", system.store)

    def completed() -> int:
        return len(system.ask("GET", "/v1/jobs?status=completed", **{"Rota-Namespace": "acme"})["items"])

    system.until(completed, lambda count: count >= 2)
    assert system.ask("GET", "/v1/schedules")["items"] == []
    assert system.ask("GET", "/v1/jobs")["items"] == []
