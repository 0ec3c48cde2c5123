"""An app with one task, for those who look at how it is submitted."""

from __future__ import annotations

from rota import Rota


def app_on(url: str) -> Rota:
    """Make it, on a store or an API."""
    app = Rota(url)

    @app.task
    async def note(number: int) -> int:
        return number

    return app
