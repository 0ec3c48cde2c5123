"""Browser sessions: begin one with a token, end one."""

from __future__ import annotations

from datetime import timedelta

from rota.api.auth import unauthorized
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.namespaces import chosen_namespace
from rota.api.router import Route
from rota.api.routes.tokens import access_form
from rota.api.sessions import SESSION, begin_session, cookie_header
from rota.core.access import Action
from rota.wire.access import AccessForm, SessionRequest


async def begin(request: Request) -> Response:
    """Begin a session with the token in `Authorization`, or with a user's password, and set its cookie."""
    body, settings = await request.read_or(SessionRequest, SessionRequest()), request.context.settings
    if not settings.keys:
        raise HttpError(409, "no_token_needed", "this server needs no token, since ROTA_TOKEN is not set")
    if b"authorization" not in request.headers:
        # A session cannot make itself longer.
        if body.user is None or body.password is None:
            raise unauthorized()
        request.key = await request.context.logins.log_in(body.user, body.password, request.actor.origin)
    elif body.user is not None or body.password is not None:
        raise invalid([("user", "a token and a password are both given; give one")])
    now = request.engine.clock()
    text, expires_at = begin_session(request.key, settings, now, chosen_namespace(request))
    request.scope[SESSION] = expires_at
    return json_response(access_form(request), 201, set_cookie=cookie_header(request.scope, text, expires_at - now))


async def end(request: Request) -> Response:
    """Remove the cookie of a session."""
    response = empty_response()
    response.headers.append((b"set-cookie", cookie_header(request.scope, "", timedelta(0)).encode()))
    return response


ROUTES = (
    Route(
        method="POST",
        path="/v1/session",
        action=Action.SIGNED_IN,
        handler=begin,
        summary="Begin a browser session with the token of this request, or a user's password; sets a cookie",
        tag="tokens",
        body=SessionRequest,
        body_is_optional=True,
        responses={201: AccessForm},
        error_statuses=(409,),
    ),
    Route(
        method="DELETE",
        path="/v1/session",
        action=Action.SIGNED_IN,
        handler=end,
        summary="End a browser session: removes its cookie",
        tag="tokens",
        responses={204: None},
    ),
)
