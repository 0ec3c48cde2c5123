"""Encryption of an app that opens its store itself: every way to submit, steps in transactions, taken ids."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from api.environment import api_environment, body_of, problem_of
from encryption.test_cipher import NEW, OLD, cipher_of, line
from rota import Rota, current
from rota.core.envelope import is_encrypted
from rota.core.errors import KeyReused
from rota.core.ids import JobId, compose, to_text
from rota.core.submission import NewJob
from rota.encryption.jobs import encrypting_submit
from rota.ports.store import Receipt
from rota.settings import read

CANARY = "kanarie7vogel"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    path = tmp_path / "rota.db"
    one = Rota(str(path))
    one.configure(read({"encryption_keys": line(OLD)}))

    @one.task
    def echo(text: str) -> str:
        return text

    @one.task
    def write(text: str) -> str:
        connection = sqlite3.connect(path)
        try:
            answer = current().step("tell", lambda: text, tx=connection)
            connection.commit()
        finally:
            connection.close()
        return answer

    yield one
    one.close()


def stored(app: Rota) -> str:
    folder = Path(app.url).parent
    return "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())


def test_every_way_to_submit_encrypts_and_the_worker_of_the_app_decrypts(app: Rota) -> None:
    echo = app.tasks["echo"]

    async def submit_async() -> list[Any]:
        many = await app.asubmit_many([echo.call(CANARY), echo.call(CANARY)])
        return [await echo.asubmit(CANARY), *many]

    connection = sqlite3.connect(app.url)
    handles = [echo.submit(CANARY), *app.submit_many([echo.call(CANARY), echo.call(CANARY)])]
    handles += asyncio.run(submit_async())
    handles += app.submit_many([echo.using(priority=7).call(CANARY), echo.call(CANARY)])
    handles.append(echo.using(tx=connection).submit(CANARY))
    handles.append(echo.using(tx=connection, idempotency_key="one").submit(CANARY))
    connection.commit()
    assert CANARY not in stored(app)
    with app.run():
        assert [handle.result(timeout=60) for handle in handles] == [CANARY] * len(handles)
        answer = app.tasks["write"].submit(CANARY)
        assert answer.result(timeout=60) == CANARY
        assert CANARY not in stored(app)
    rows = connection.execute("SELECT outcome FROM rota_step").fetchall()
    connection.close()
    assert rows
    assert all(is_encrypted(outcome) for (outcome,) in rows)


def test_an_idempotency_key_is_recognised_across_a_rotation_in_a_transaction_too(app: Rota) -> None:
    def submit(text: str) -> str:
        connection = sqlite3.connect(app.url)
        try:
            handle = app.tasks["echo"].using(tx=connection, idempotency_key="one").submit(text)
            connection.commit()
        finally:
            connection.close()
        return handle.id

    app.submit_by_name("echo", {"text": "first"})
    first = submit("a")
    app.configure(read({"encryption_keys": f"{line(NEW)},{line(OLD)}"}))
    assert submit("a") == first
    with pytest.raises(KeyReused):
        submit("b")


async def test_a_job_whose_id_is_taken_is_bound_to_another_one() -> None:
    cipher, fresh = cipher_of(OLD), iter([JobId(8), JobId(9)])
    async with api_environment() as env:
        engine = env.engine
        await engine.submit([NewJob(JobId(7), "a", "1"), NewJob(JobId(8), "a", "2")])
        submit = encrypting_submit(engine.submit, cipher, lambda: next(fresh))
        answers: Sequence[Any] = await submit([NewJob(JobId(7), "a", '"mine"')])
        assert (answers[0].receipt, answers[0].job_id) == (Receipt.CREATED, JobId(9))
        (job,) = await engine.get([JobId(9)])
        assert cipher.decrypt_payload(job) == '"mine"'


async def test_only_an_encrypted_job_brings_its_id_and_only_a_new_one() -> None:
    cipher = cipher_of(OLD)
    async with api_environment() as env:
        now = int((await env.engine.store.time()).timestamp() * 1000)
        name = to_text(compose(now, 5))
        sealed = json.loads(cipher.encrypt("1", "payload", name))
        refused = await env.client.post("/v1/jobs", json={"id": name, "payload": 1})
        assert "leave it out" in problem_of(refused, 422)["detail"]
        old = await env.client.post("/v1/jobs", json={"id": to_text(7), "payload": sealed})
        assert "was not made now" in problem_of(old, 422)["detail"]
        made = await env.client.post("/v1/jobs", json={"id": name, "payload": sealed})
        assert body_of(made, 201)["id"] == name
        again = await env.client.post("/v1/jobs", json={"id": name, "payload": sealed})
        assert "another job has the id" in problem_of(again, 409)["detail"]
        batch = await env.client.post("/v1/jobs:batch", json={"jobs": [{"id": name, "payload": sealed}]})
        (item,) = body_of(batch)["items"]
        assert (item["status"], item["receipt"]) == (409, "id_taken")
        cron = await env.client.post("/v1/jobs", json={"id": name, "payload": sealed, "cron": "@every 1h"})
        problem_of(cron, 422)
