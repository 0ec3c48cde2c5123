"""Namespaces with real processes: one scheduler with the API for all, and a worker for each."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from journeys.stage import Stage
from rota.runtime.namespace_stores import drop, store_url


@contextmanager
def dropped(stage: Stage, *names: str) -> Iterator[None]:
    """Leave no database of a namespace behind: that of the stage is used again."""
    try:
        yield
    finally:
        for process in stage.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if "://" in stage.store:
            for name in names:
                asyncio.run(drop(store_url(stage.store, name)))


def serve(stage: Stage) -> int:
    pid = stage.start("scheduler", "--port", str(stage.port), "--store", stage.store).pid
    stage.until_up()
    return pid


def submit(stage: Stage, namespace: str) -> str:
    job = stage.ask("POST", "/v1/jobs", {"type": "echo", "payload": namespace}, **{"Rota-Namespace": namespace})
    return str(job["id"])


def status(stage: Stage, namespace: str, job_id: str) -> str:
    return str(stage.ask("GET", f"/v1/jobs/{job_id}", **{"Rota-Namespace": namespace})["status"])


@pytest.mark.parametrize("stage", ["sqlite", "postgres", "mariadb", "cluster"], indirect=True)
def test_each_worker_runs_the_jobs_of_its_namespace_also_after_a_crash(stage: Stage) -> None:
    with dropped(stage, "acme", "beta"):
        server = serve(stage)
        for name in ("acme", "beta"):
            stage.rota("namespaces", "create", name)
        stage.start("worker", "--worker-id", "over-http", "--namespace", "acme", "--api-url", stage.url)
        stage.start("worker", "--worker-id", "on-store", "--namespace", "beta", "--store", stage.store)
        left = submit(stage, "default")
        for _ in range(2):
            jobs = {name: submit(stage, name) for name in ("acme", "beta")}
            for name, job in jobs.items():
                stage.until(lambda: status(stage, name, job), lambda seen: seen == "completed")  # noqa: B023 - at once
            assert status(stage, "default", left) == "pending"
            for name, worker in (("default", None), ("acme", "over-http"), ("beta", "on-store")):
                members = stage.ask("GET", "/v1/workers", **{"Rota-Namespace": name})["items"]
                assert {one["worker_id"] for one in members} == ({worker} if worker else set())
            os.killpg(server, signal.SIGKILL)
            server = serve(stage)
        refused = stage.rota("worker", "--namespace", "gamma", "--store", stage.store, code=2)
        assert refused == ""


def test_an_app_runs_in_its_namespace_with_its_schedules(stage: Stage) -> None:
    (stage.folder / "shop.py").write_text(
        "from rota import Rota\napp = Rota(name='shop')\n"
        "@app.task(every='1s')\ndef tick() -> str:\n    return 'done'\n",
        encoding="utf-8",
    )
    serve(stage)
    stage.rota("namespaces", "create", "acme")
    stage.start("scheduler", "--namespace", "acme", "--app", "shop:app", "--store", stage.store)
    stage.start("worker", "--namespace", "acme", "--app", "shop:app", "--store", stage.store)

    def completed() -> int:
        return len(stage.ask("GET", "/v1/jobs?status=completed", **{"Rota-Namespace": "acme"})["items"])

    stage.until(completed, lambda count: count >= 2)
    assert stage.ask("GET", "/v1/schedules")["items"] == []
    assert stage.ask("GET", "/v1/jobs")["items"] == []
