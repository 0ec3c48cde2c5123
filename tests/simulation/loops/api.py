"""The real API on the stage, and the real client that asks it."""

from __future__ import annotations

from rota.api import ApiSettings, create_app
from rota.client import Client
from rota.client.transport import Transport
from simulation.loops.view import engine_on
from simulation.models.stage import Stage
from simulation.web import Wire


async def serve(stage: Stage) -> None:
    """Serve the API until asked to stop."""
    api = create_app(engine_on(stage), settings=ApiSettings(instance_id=stage.host.name, serves_any_host=True))
    stage.web.open(stage.host, api, stage.reach)
    await stage.host.stopping.wait()


def client_on(stage: Stage) -> Client:
    """Make the client of a host; each begins with another of the API's addresses."""
    urls = stage.web.urls
    first = stage.rng.randrange(len(urls))
    wire = Wire(stage.web, stage.host)
    transport = Transport([*urls[first:], *urls[:first]], http_transport=wire, rng=stage.rng.random)
    return Client(transport, clock=stage.host.clock)
