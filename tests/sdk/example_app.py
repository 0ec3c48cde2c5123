"""An app with one task, for tests of submissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota import Rota


def app_on(url: str) -> Rota:
    """Make it, on a store or an API."""
    app = Rota(url)

    @app.task
    async def note(number: int) -> int:
        return number

    return app


def with_a_bad_queue(task: Any) -> Any:  # noqa: ANN401 - any task
    """Return a task whose jobs are refused where they are stored: `using` would refuse such a queue at once."""
    other = task.using()
    other.template = replace(task.template, queue="q" * 1000)
    return other
