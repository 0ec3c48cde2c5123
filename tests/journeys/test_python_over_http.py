"""The Python API over HTTP: many callers at once share requests, and a bad one among them harms no other."""

from __future__ import annotations

import asyncio

from journeys.system import System
from rota import Rota, RotaError
from sdk.example_app import with_a_bad_queue


async def _crowd(app: Rota, number: int) -> tuple[int, int]:
    note = app.tasks["note"]
    bad = with_a_bad_queue(note)
    calls = [bad.asubmit(count) if count % 10 == 3 else note.asubmit(count) for count in range(number)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RotaError)]
    assert all("queue" in str(refusal) for refusal in refused)
    return len(answers) - len(refused), len(refused)


def test_callers_that_share_a_request_with_a_bad_one_get_one_job_each(system: System) -> None:
    system.start("-mode", "scheduler", "-port", str(system.port), "-db", system.store)
    system.until_up()
    app = Rota(system.url)

    @app.task
    def note(number: int) -> int:
        return number

    try:
        assert asyncio.run(_crowd(app, 60)) == (54, 6)
    finally:
        app.close()
    assert system.ask("GET", "/v1/stats")["states"]["pending"] == 54


def test_a_submission_by_name_over_http_takes_the_defaults_of_a_task_of_the_app(system: System) -> None:
    system.start("-mode", "scheduler", "-port", str(system.port), "-db", system.store)
    system.until_up()
    app = Rota(system.url)

    @app.task(queue="mail", priority=8, retry=7)
    def send(to: str) -> str:
        return to

    try:
        job = app.submit_by_name("send", {"to": "ann"}).job
        other = app.submit_by_name("send", {"to": "ann"}, priority=2).job
    finally:
        app.close()
    assert (job.queue, job.priority, job.max_attempts) == ("mail", 8, 7)
    assert (other.queue, other.priority, other.max_attempts) == ("mail", 2, 7)
