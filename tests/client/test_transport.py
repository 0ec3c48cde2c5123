"""The client checks its addresses and token before the first request, and gives requests about graphs more time."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from rota.client.client import GRAPH_SECONDS, Client
from rota.client.transport import Transport
from rota.core.errors import InvalidRequest, RotaError
from rota.core.graph import NewNode, WorkflowId, planned
from rota.core.ids import JobId, to_text
from rota.core.submission import NewJob
from rota.ports.client import Actor


def test_a_password_in_the_address_and_a_token_are_refused_together() -> None:
    """Both go into one header: the password was sent, the token was not, and every request was refused."""
    with pytest.raises(InvalidRequest, match=r"api_url: .* remove one") as refusal:
        Transport(["http://127.0.0.1:8080", "http://ada:hunter2@127.0.0.1:8081"], token="secret")  # noqa: S106
    assert "hunter2" not in str(refusal.value)


async def test_either_of_them_is_taken() -> None:
    for urls, token in ((["http://ada:hunter2@127.0.0.1:8080"], ""), (["http://127.0.0.1:8080"], "secret")):
        await Transport(urls, token=token).close()


async def test_requests_about_graphs_may_take_longer_than_others() -> None:
    """10,000 jobs were stored, and a busy server had no time to say so within the seconds of other requests."""
    seconds: dict[str, float] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        seconds[request.url.path] = request.extensions["timeout"]["read"]
        return httpx.Response(404, json={"title": "Not Found", "status": 404, "detail": "unknown", "code": "not_found"})

    client = Client(Transport(["http://127.0.0.1:8080"], http_transport=httpx.MockTransport(answer)))
    workflow_id = WorkflowId(1)
    calls: list[Coroutine[Any, Any, object]] = [
        client.submit_workflow(planned(workflow_id, "w", [NewNode("a", NewJob(JobId(2), "mail"))])),
        client.retry_workflow(workflow_id, Actor("olga")),
        client.workflow_nodes(workflow_id),
        client.input_of(JobId(2), 1),
        client.workflow(workflow_id),
    ]
    for call in calls:
        with pytest.raises(RotaError):
            await call
    await client.close()
    own = f"/v1/workflows/{to_text(workflow_id)}"
    assert {path for path, span in seconds.items() if span == GRAPH_SECONDS} == {
        "/v1/workflows",
        f"{own}/retry",
        "/v1/leases:input",
    }
    assert seconds[own] < GRAPH_SECONDS
