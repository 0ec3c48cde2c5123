"""The system's own condition: sizes of the store, settings with their origin, checks, leaders."""

from __future__ import annotations

from typing import Final

from rota.api.errors import HttpError
from rota.api.http import Request, Response, json_response
from rota.api.router import Route
from rota.api.routes.health import leader_of, problems_of
from rota.core.access import Action
from rota.core.cluster import LEAD
from rota.core.health import CHECKS
from rota.wire.scalars import seconds_of
from rota.wire.system import (
    CheckForm,
    CheckList,
    LeaderList,
    LeaderTerm,
    SettingForm,
    SettingList,
    StoreSizes,
    TableSizeForm,
)

_RETAINED: Final = ("completed", "cancelled", "dead", "history")
_DEFAULT_ORIGIN: Final = "default"


async def store(request: Request) -> Response:
    """Show the sizes of the store, its free disk space and its migrations."""
    engine, settings = request.engine, request.context.settings
    sizes, condition = await engine.store.sizes(), await engine.store.condition(settings.retention)
    return json_response(
        StoreSizes(
            kind=settings.store_name,
            tables=[TableSizeForm(name=one.name, bytes=one.bytes, rows=one.rows) for one in sizes],
            free_bytes=condition.free_bytes,
            missing_migrations=list(condition.missing_migrations),
            unknown_migrations=list(condition.unknown_migrations),
            oldest_prunable=condition.oldest_prunable,
            retention={name: seconds_of(getattr(settings.retention, name)) for name in _RETAINED},
        )
    )


async def config(request: Request) -> Response:
    """Show every setting of this process, and where its value comes from."""
    effective = request.context.settings.effective
    if effective is None:
        detail = "the settings of a server are shown in its own namespace only"
        raise HttpError(404, "not_found", detail, fix="ask who operates it")
    items = [
        SettingForm(name=name, value=value, origin=origin, is_default=origin == _DEFAULT_ORIGIN)
        for name, value, origin in effective()
    ]
    return json_response(SettingList(instance_id=request.context.settings.instance_id, items=items))


async def doctor(request: Request) -> Response:
    """Run all checks of the deployment, and show also those that found nothing."""
    found = await problems_of(request.context)
    by_code = {one.code: one for one in reversed(found)}
    items = []
    for code in (*CHECKS, *(one.code for one in found if one.code not in CHECKS)):
        problem = by_code.get(code)
        items.append(
            CheckForm(
                code=code,
                status="ok" if problem is None else problem.severity.value,
                text=CHECKS.get(code, "") if problem is None else problem.text,
                fix="" if problem is None else problem.fix,
                link="" if problem is None else problem.link,
            )
        )
    return json_response(CheckList(items=items, checked_at=request.engine.clock()))


async def leaders(request: Request) -> Response:
    """Show the current leader, and the leaders before it since this process was started."""
    seen, coordinator = list(request.context.leaders), request.context.settings.coordinator
    if not seen and coordinator is not None and (now := await coordinator.leader(LEAD)) is not None:
        # It led before this process listened.
        seen = [(request.context.started_at, now)]
    terms = [LeaderTerm(name=one.holder, term=one.term, seen_at=at) for at, one in reversed(seen)]
    return json_response(
        LeaderList(current_leader=leader_of(request.context), items=terms, since=request.context.started_at)
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/system/store",
        action=Action.SYSTEM_READ,
        handler=store,
        summary="Sizes of the store, free disk space, migrations",
        tag="system",
        responses={200: StoreSizes},
    ),
    Route(
        method="GET",
        path="/v1/system/config",
        action=Action.SYSTEM_READ,
        handler=config,
        summary="Every setting of this process and where its value comes from; secrets are hidden",
        tag="system",
        responses={200: SettingList},
        error_statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/system/doctor",
        action=Action.SYSTEM_READ,
        handler=doctor,
        summary="All checks of the deployment with their results",
        tag="system",
        responses={200: CheckList},
    ),
    Route(
        method="GET",
        path="/v1/system/leaders",
        action=Action.SYSTEM_READ,
        handler=leaders,
        summary="The current leader, and the leaders before it since this process was started",
        tag="system",
        responses={200: LeaderList},
    ),
)
