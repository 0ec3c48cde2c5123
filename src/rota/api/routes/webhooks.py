"""Webhooks: create, list, rotate, enable, remove, test, and the log of deliveries. `{id}` is an id or a name."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.http import Request, Response, json_response
from rota.api.router import Handler, Route
from rota.core.access import Action
from rota.core.duration import parse_duration
from rota.core.ids import to_text
from rota.wire.webhooks import (
    DeliveryList,
    NewWebhookForm,
    TestReply,
    WebhookForm,
    WebhookList,
    WebhookRequest,
    WebhookRotateRequest,
    delivery_form,
    new_webhook_form,
    webhook_form,
)


class DeliveryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many deliveries to list."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 100


async def create(request: Request) -> Response:
    """Create a webhook; its secret is in the response and nowhere else."""
    body = await request.read(WebhookRequest)
    events, queues = tuple(dict.fromkeys(body.events)), tuple(dict.fromkeys(body.queues))
    webhook = await request.engine.webhooks.create(body.name, body.url, events, queues, request.actor)
    location = f"/v1/webhooks/{webhook.id}"
    return json_response(new_webhook_form(webhook), 201, location=location, cache_control="no-store")


async def list_webhooks(request: Request) -> Response:
    return json_response(WebhookList(items=[webhook_form(one) for one in await request.engine.webhooks.all()]))


async def get(request: Request) -> Response:
    return json_response(webhook_form(await request.engine.webhooks.one(request.path_params["id"])))


async def remove(request: Request) -> Response:
    """Remove a webhook for good; messages that are under way are not sent any more."""
    return json_response(webhook_form(await request.engine.webhooks.remove(request.path_params["id"], request.actor)))


async def rotate(request: Request) -> Response:
    """Give a webhook a new secret; for a while messages have two signatures."""
    body = await request.read_or(WebhookRotateRequest, WebhookRotateRequest())
    overlap = parse_duration(body.overlap, field="overlap")
    webhook = await request.engine.webhooks.rotate(request.path_params["id"], overlap, request.actor)
    return json_response(new_webhook_form(webhook), cache_control="no-store")


async def enable(request: Request) -> Response:
    """Enable a webhook that was disabled because its receiver answered 410."""
    return json_response(webhook_form(await request.engine.webhooks.enable(request.path_params["id"], request.actor)))


async def test(request: Request) -> Response:
    """Send a test message; the job that delivers it shows how it went."""
    return json_response(TestReply(id=to_text(await request.engine.webhooks.test(request.path_params["id"]))), 202)


async def deliveries(request: Request) -> Response:
    query = request.query(DeliveryQuery)
    jobs = await request.engine.webhooks.deliveries(request.path_params["id"], query.limit)
    return json_response(DeliveryList(items=[delivery_form(job) for job in jobs]))


def _route(method: str, path: str, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401 - its fields
    action = Action.WEBHOOKS_READ if method == "GET" else Action.WEBHOOKS_EDIT
    return Route(method=method, path=path, action=action, handler=handler, summary=summary, tag="webhooks", **more)


_ALL: Final = "/v1/webhooks"
_ONE: Final = "/v1/webhooks/{id}"
ROUTES = (
    _route(
        "POST",
        _ALL,
        create,
        "Create a webhook; its secret is shown this once",
        body=WebhookRequest,
        responses={201: NewWebhookForm},
        error_statuses=(409,),
    ),
    _route("GET", _ALL, list_webhooks, "List webhooks", responses={200: WebhookList}),
    _route("GET", _ONE, get, "Show a webhook, by id or by name", responses={200: WebhookForm}),
    _route("DELETE", _ONE, remove, "Remove a webhook for good", responses={200: WebhookForm}, error_statuses=(409,)),
    _route(
        "POST",
        f"{_ONE}/rotate",
        rotate,
        "Give a webhook a new secret; for a while messages have two signatures",
        body=WebhookRotateRequest,
        body_is_optional=True,
        responses={200: NewWebhookForm},
        error_statuses=(409,),
    ),
    _route(
        "POST",
        f"{_ONE}/enable",
        enable,
        "Enable a webhook whose receiver answered 410",
        responses={200: WebhookForm},
        error_statuses=(409,),
    ),
    _route("POST", f"{_ONE}/test", test, "Send a test message", responses={202: TestReply}),
    _route(
        "GET",
        f"{_ONE}/deliveries",
        deliveries,
        "List the deliveries of a webhook, newest first",
        query=DeliveryQuery,
        responses={200: DeliveryList},
    ),
)
