"""A secret in payload, result, error, progress, log and step is nowhere but in the processes that have the key."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from encryption.secret_tasks import app as tasks
from encryption.test_cipher import NEW, OLD, line
from journeys.conftest import system
from journeys.system import System
from rota import JobFailed, Rota
from rota.core.errors import KeyMissing, KeyReused
from rota.core.lifecycle import State

__all__ = ["system"]
CANARY = "kanarie7vogel"
TESTS = Path(__file__).parent.parent
ON_STORES = pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb"], indirect=True)
#: A lease that is renewed a few times during each job: progress is sent with renewals.
WITH_KEY = {"ROTA_ENCRYPTION_KEYS": line(OLD), "PYTHONPATH": str(TESTS), "ROTA_LEASE": "1s"}


@pytest.fixture
def client(system: System, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rota]:
    """Return a program with the key that uses the API only."""
    monkeypatch.setenv("ROTA_ENCRYPTION_KEYS", line(OLD))
    monkeypatch.chdir(system.folder)
    app = Rota(system.url)
    for name, task in tasks.tasks.items():
        app.task(name=name, executor=tasks.executors[name], **task.options)(task.function)
    yield app
    app.close()


def serve(system: System) -> None:
    """Start an API and a scheduler, without keys."""
    system.start("-mode", "scheduler", "-port", str(system.port), "-db", system.store, "--log-level", "debug")
    system.until_up()


def work(system: System, **environment: str) -> subprocess.Popen[bytes]:
    return system.start(
        "worker", "--app", "encryption.secret_tasks:app", "--log-level", "debug", environment=WITH_KEY | environment
    )


def database_text(system: System) -> str:
    """Read everything there is in the store."""
    if system.store.startswith("postgres"):
        with psycopg.connect(system.store) as connection:
            schemas = "schemaname NOT IN ('pg_catalog', 'information_schema')"
            names = connection.execute(f"SELECT schemaname, tablename FROM pg_tables WHERE {schemas}").fetchall()  # noqa: S608
            return "".join(str(connection.execute(f'TABLE "{a}"."{b}"').fetchall()) for a, b in names)
    if system.store.startswith("mysql"):
        place = urlsplit(system.store)
        connected = pymysql.connect(
            host=place.hostname, port=place.port or 3306, user=place.username, database=place.path[1:]
        )
        with connected, connected.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            text = ""
            for (name,) in cursor.fetchall():
                cursor.execute(f"SELECT * FROM `{name}`")  # noqa: S608 - a table of ours
                text += str(cursor.fetchall())
            return text
    opened = sqlite3.connect(system.folder / system.store)
    text = "".join(opened.iterdump())
    opened.close()
    files = system.folder.glob(f"{system.store}*")
    return text + "".join(path.read_bytes().decode("latin-1") for path in files)


def run_all(client: Rota) -> list[str]:
    """Run jobs that put the secret everywhere, and see that the client can read what came of it."""
    shown = client.tasks["show"].submit(CANARY)
    assert shown.result(timeout=60) == {"answer": f"told {CANARY}"}
    assert CANARY in shown.job.payload
    in_a_process = client.tasks["show_in_a_process"].submit(CANARY)
    assert in_a_process.result(timeout=60) == CANARY
    failed = client.tasks["fail"].submit(CANARY)
    with pytest.raises(JobFailed, match=f"gave up on {CANARY}"):
        failed.result(timeout=60)
    assert failed.job.error is not None
    assert CANARY in failed.job.error.traceback
    chained = client.tasks["keep"].using(on_success=client.tasks["keep"]).submit({"it": CANARY})
    assert chained.result(timeout=60) == {"it": CANARY}
    with_arguments = client.tasks["keep"].using(on_success=client.tasks["keep"].call(CANARY)).submit(None)
    with_arguments.result(timeout=60)
    return [shown.id, in_a_process.id, failed.id, chained.id, with_arguments.id]


@ON_STORES
def test_the_secret_is_in_no_database_answer_log_or_metric(system: System, client: Rota) -> None:
    serve(system)
    work(system)
    ids = run_all(client)
    followers = system.until(
        lambda: [job for job in system.ask("GET", "/v1/jobs?type=keep&limit=100")["items"] if "parent_id" in job],
        lambda found: len(found) == 3 and all(job["status"] == "completed" for job in found),
    )
    seen = {
        "database": database_text(system),
        "logs": system.logs(),
        "metrics": str(system.ask_text("/metrics")),
        "export": system.ask_text("/v1/dead-letters/export"),
        "overview": system.ask_text("/v1/overview"),
        "jobs": system.ask_text("/v1/jobs?fields=payload,result&limit=100"),
    }
    for job_id in [*ids, *(job["id"] for job in followers)]:
        for path in ("", "/result", "/attempts", "/steps", "/explain"):
            seen[f"{job_id}{path}"] = system.ask_text(f"/v1/jobs/{job_id}{path}")
        seen[f"rota jobs get {job_id}"] = system.rota("jobs", "get", job_id)
        seen[f"rota jobs attempts {job_id}"] = system.rota("jobs", "attempts", job_id)
    encoded = base64.b64encode(CANARY.encode()).decode()[:14]
    for name, text in seen.items():
        assert CANARY not in text, name
        assert encoded not in text, name
    assert "rota.encrypted" in seen["database"]
    assert '\\"progress\\"' in seen[f"{ids[0]}/attempts"]
    assert "encrypted (key k1)" in seen[f"rota jobs get {ids[0]}"]
    # Who has the key sees it, and the jobs that took results got them.
    system.variables = {"ROTA_ENCRYPTION_KEYS": line(OLD)}
    for job_id in [*ids[:4], *(job["id"] for job in followers)]:
        assert CANARY in system.rota("jobs", "get", job_id), job_id
    assert CANARY in system.rota("jobs", "steps", ids[0])


@ON_STORES
def test_rotation_while_jobs_run_loses_none(system: System, client: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    del client
    keys = system.folder / "keys"
    keys.write_text(line(OLD), encoding="utf-8")
    monkeypatch.setenv("ROTA_ENCRYPTION_KEYS", f"file:{keys}")
    serve(system)
    work(system, ROTA_ENCRYPTION_KEYS=f"file:{keys}")
    app = Rota(system.url)
    try:
        handles = []
        for number, text in enumerate((line(OLD), f"{line(OLD)}\n{line(NEW)}", f"{line(NEW)}\n{line(OLD)}")):
            new = keys.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            os.replace(new, keys)  # noqa: PTH105 - as an operator's tool does
            handles += [
                app.submit_by_name("double", {"number": 100 * number + place}, idempotency_key=f"{number}-{place}")
                for place in range(40)
            ]
        # A key that was used before the rotation is recognised after it, and a job with other arguments is refused.
        again = system.until(
            lambda: app.submit_by_name("double", {"number": 0}, idempotency_key="0-0").id,
            lambda job_id: job_id == handles[0].id,
        )
        assert again == handles[0].id
        with pytest.raises(KeyReused):
            app.submit_by_name("double", {"number": 1}, idempotency_key="0-0")
        results = [handle.result(timeout=60) for handle in handles]
    finally:
        app.close()
    assert results == [2 * (100 * number + place) for number in range(3) for place in range(40)]
    assert system.ask("GET", "/v1/stats")["states"].get("dead", 0) == 0


@ON_STORES
def test_a_job_waits_for_a_worker_that_has_its_key(system: System, client: Rota) -> None:
    serve(system)
    stranger = work(system, ROTA_ENCRYPTION_KEYS=line(NEW))
    waiting = client.tasks["double"].using(delivery="at_most_once").submit(4)
    system.until(lambda: waiting.state, lambda state: state is State.SCHEDULED)
    job = waiting.job
    assert (job.attempts, job.error) == (0, None)
    assert "needs the key 'k1', which is not configured here" in system.logs()
    stranger.terminate()
    stranger.wait()
    work(system)
    system.ask("POST", f"/v1/jobs/{waiting.id}/retry")
    assert waiting.result(timeout=60) == 8


def test_a_worker_without_keys_leaves_encrypted_jobs_alone_and_says_why(system: System, client: Rota) -> None:
    serve(system)
    work(system, ROTA_ENCRYPTION_KEYS="")
    waiting = client.tasks["double"].submit(4)
    system.until(lambda: waiting.state, lambda state: state is State.SCHEDULED)
    assert "this worker has no keys; set encryption_keys" in system.logs()


def test_a_payload_that_was_moved_to_another_job_is_a_dead_letter(system: System, client: Rota) -> None:
    serve(system)
    first, second = client.tasks["double"].submit(4), client.tasks["double"].submit(5)
    with sqlite3.connect(system.folder / system.store) as connection:
        rows = connection.execute("SELECT id, payload FROM rota_job ORDER BY id").fetchall()
        connection.execute("UPDATE rota_job SET payload = ? WHERE id = ?", (rows[0][1], rows[1][0]))
    connection.close()
    work(system)
    assert first.result(timeout=60) == 8
    with pytest.raises(JobFailed, match=r"DecryptionFailed: .*it was moved"):
        second.result(timeout=60)
    assert system.job(second.id)["reason"] == "permanent"


def test_a_program_without_the_key_gets_an_error_that_names_it(
    system: System, client: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(system)
    work(system)
    handle = client.tasks["double"].submit(4)
    assert handle.result(timeout=60) == 8
    for keys, message in (("", "no keys are configured here"), (line(NEW), "needs the key 'k1'")):
        monkeypatch.setenv("ROTA_ENCRYPTION_KEYS", keys)
        other = Rota(system.url)
        try:
            with pytest.raises(KeyMissing, match=message):
                other.get(handle.id).result(timeout=60)
        finally:
            other.close()


def test_jobs_from_the_command_line_are_encrypted_too(system: System) -> None:
    serve(system)
    work(system)
    system.variables = {"ROTA_ENCRYPTION_KEYS": line(OLD)}
    typed = ("submit", "--type", "keep", "--payload", f'["{CANARY}"]', "--key", "one")
    assert CANARY in system.rota(*typed, "--wait", "60s")
    assert system.rota(*typed) == system.rota(*typed)
    lines = system.folder / "jobs.jsonl"
    lines.write_text(f'{{"type": "keep", "payload": ["{CANARY}"]}}\n', encoding="utf-8")
    system.rota("submit", "--from", str(lines))
    system.rota("schedules", "create", "each", "--cron", "@every 1h", "--type", "keep", "--payload", f'["{CANARY}"]')
    system.rota("schedules", "run-now", "each")
    system.until(
        lambda: system.ask("GET", "/v1/jobs?type=keep")["items"],
        lambda jobs: len(jobs) == 3 and all(job["status"] == "completed" for job in jobs),
    )
    assert CANARY not in database_text(system) + system.logs()


def test_a_built_in_type_takes_an_encrypted_payload(system: System) -> None:
    serve(system)
    system.variables = WITH_KEY
    system.start("worker", environment=WITH_KEY)
    assert CANARY in system.rota("submit", "--type", "echo", "--payload", f'"{CANARY}"', "--wait", "60s")
