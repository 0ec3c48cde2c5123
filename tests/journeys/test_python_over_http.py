"""The Python API over HTTP: many callers at once share requests, and a bad one among them harms no other."""

from __future__ import annotations

import asyncio

from journeys.stage import Stage
from rota import Rota, RotaError


async def _crowd(app: Rota, number: int) -> tuple[int, int]:
    note = app.tasks["note"]
    bad = note.using(queue="q" * 1000)
    calls = [bad.asubmit(count) if count % 10 == 3 else note.asubmit(count) for count in range(number)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RotaError)]
    assert all("queue" in str(refusal) for refusal in refused)
    return len(answers) - len(refused), len(refused)


def test_callers_who_share_a_request_with_a_bad_one_get_one_job_each(stage: Stage) -> None:
    stage.start("-mode", "scheduler", "-port", str(stage.port), "-db", stage.store)
    stage.until_up()
    app = Rota(stage.url)

    @app.task
    def note(number: int) -> int:
        return number

    try:
        assert asyncio.run(_crowd(app, 60)) == (54, 6)
    finally:
        app.close()
    assert stage.ask("GET", "/v1/stats")["states"]["pending"] == 54
