"""The jobs whose rows the ceilings write."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.submission import NewJob

PAYLOAD = '{"to": "user@example.com", "subject": "Your report", "body": "' + "x" * 130 + '"}'


def jobs(first: int, count: int, **options: object) -> list[NewJob]:
    return [NewJob(JobId(first + number), "mail", PAYLOAD, **options) for number in range(count)]  # type: ignore[arg-type]
