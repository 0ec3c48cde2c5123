"""Encryption of what handlers wait for: events, child jobs and their failures."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from encryption.test_cipher import OLD, line
from rota import JobFailed, Rota, current
from rota.settings import read

CANARY = "kanarie7vogel"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    one.configure(read({"encryption_keys": line(OLD)}))

    @one.task(retry=1)
    def child(text: str, fails: bool) -> str:  # noqa: FBT001 - an argument
        if fails:
            raise ValueError(text)
        return text

    @one.task
    def parent(text: str) -> list[object]:
        job = current()
        paid = job.wait("paid", event="paid", timeout="60s")
        booked = job.wait("booked", event="booked", timeout="60s")
        result = job.call("child", child, text, fails=False).result()
        try:
            job.call("failing", child, text, fails=True).result()
        except JobFailed as failed:
            error = failed.job.error
            return [paid, booked, result, None if error is None else error.message]
        return []

    yield one
    one.close()


def test_events_and_child_jobs_are_encrypted_in_the_store_and_read_by_the_handler(app: Rota) -> None:
    connection = sqlite3.connect(app.url)
    with app.run():
        handle = app.tasks["parent"].submit(CANARY)
        app.emit("paid", CANARY)
        app.emit("booked", CANARY, tx=connection)
        connection.commit()
        connection.close()
        assert handle.result(timeout=60) == [CANARY] * 4
    folder = Path(app.url).parent
    assert not any(CANARY.encode() in path.read_bytes() for path in folder.iterdir())
