"""The real API in the simulation, and the real client of it."""

from __future__ import annotations

from rota.api import ApiSettings, create_app
from rota.client import Client
from rota.client.transport import Transport
from simulation.loops.store_view import engine_on
from simulation.models.environment import Environment
from simulation.web import SimulatedTransport


async def serve(environment: Environment) -> None:
    """Serve the API until asked to stop."""
    api = create_app(
        engine_on(environment), settings=ApiSettings(instance_id=environment.host.name, serves_any_host=True)
    )
    environment.web.open(environment.host, api, environment.failpoint)
    await environment.host.stopping.wait()


def client_on(environment: Environment) -> Client:
    """Make the client of a host; each begins with another of the API's addresses."""
    urls = environment.web.urls
    first = environment.rng.randrange(len(urls))
    wire = SimulatedTransport(environment.web, environment.host)
    transport = Transport([*urls[first:], *urls[:first]], http_transport=wire, rng=environment.rng.random)
    return Client(transport, clock=environment.host.clock)
