"""Users of the dashboard: add, list, remove, change a password. `{id}` is a name.

A caller can add and change only users that are granted no more than itself, as with tokens.
"""

from __future__ import annotations

from typing import Any, Final

from rota.api.errors import HttpError
from rota.api.http import Request, Response, json_response
from rota.api.router import Handler, Route
from rota.api.routes.tokens import require_no_longer, require_no_more
from rota.core.access import Action, check_draft
from rota.wire.access import PasswordRequest, UserForm, UserList, UserRequest, draft_of, user_form


async def add(request: Request) -> Response:
    """Add a user."""
    body = await request.read(UserRequest)
    if request.engine.namespace:
        # A login names no namespace, so it could never be found there.
        raise HttpError(
            409, "conflict", "users log in to the default namespace only", fix="create a token for each person here"
        )
    now = await request.engine.store.time()
    draft = draft_of(body, now)
    check_draft(draft, now)
    require_no_more(request, draft)
    require_no_longer(request, draft)
    user = await request.engine.users.add(draft, body.password, request.actor)
    request.context.tokens.forget()
    return json_response(user_form(user), 201, location=f"/v1/users/{user.name}")


async def list_users(request: Request) -> Response:
    """List users by name."""
    return json_response(UserList(items=[user_form(user) for user in await request.engine.users.all()]))


async def get(request: Request) -> Response:
    return json_response(user_form(await request.engine.users.one(request.path_params["id"])))


async def remove(request: Request) -> Response:
    """Remove a user; its sessions end."""
    name = request.path_params["id"]
    require_no_more(request, await request.engine.users.one(name))
    user = await request.engine.users.remove(name, request.actor)
    request.context.tokens.forget()
    return json_response(user_form(user))


async def change_password(request: Request) -> Response:
    """Give a user another password; its sessions end."""
    name = request.path_params["id"]
    body = await request.read(PasswordRequest)
    known = await request.engine.users.one(name)
    require_no_more(request, known)
    require_no_longer(request, known)
    user = await request.engine.users.change_password(name, body.password, request.actor)
    request.context.tokens.forget()
    return json_response(user_form(user))


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(method=method, path=path, action=action, handler=handler, summary=summary, tag="tokens", **more)


_ONE: Final = "/v1/users/{id}"
ROUTES = (
    _route(
        "POST",
        "/v1/users",
        Action.TOKENS_EDIT,
        add,
        "Add a user who can log in to the dashboard",
        body=UserRequest,
        responses={201: UserForm},
        error_statuses=(409,),
    ),
    _route("GET", "/v1/users", Action.TOKENS_READ, list_users, "List users", responses={200: UserList}),
    _route("GET", _ONE, Action.TOKENS_READ, get, "Show a user", responses={200: UserForm}),
    _route("DELETE", _ONE, Action.TOKENS_EDIT, remove, "Remove a user; its sessions end", responses={200: UserForm}),
    _route(
        "POST",
        f"{_ONE}/password",
        Action.TOKENS_EDIT,
        change_password,
        "Give a user another password; its sessions end",
        body=PasswordRequest,
        responses={200: UserForm},
    ),
)
