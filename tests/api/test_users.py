"""Users: logins with a password, limits on wrong ones, and users that a trusted proxy names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from api.environment import ApiEnvironment, api_environment, body_of, fields_of, problem_of
from rota.api import ApiKey, ApiSettings
from rota.api.logins import MOST_BY_NAME, MOST_BY_SOURCE
from rota.core.access import TokenDraft
from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.passwords import digest_of_password, is_password_of
from rota.ports.client import Actor
from rota.runtime.api_server import user_header_of
from rota.settings import Settings

ROOT = "0123456789abcdef0123456789abcdef"
ADMIN = {"Authorization": f"Bearer {ROOT}"}
OURS = {"Sec-Fetch-Site": "same-origin"}
PASSWORD = "correct horse battery"  # noqa: S105 - a made-up one
ANN = Actor("ann")


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        await one.engine.users.add(TokenDraft("ada", "operator", queues=("mail",)), PASSWORD, ANN)
        yield one


@pytest.fixture
async def proxied() -> AsyncIterator[ApiEnvironment]:
    """Behind a proxy on 127.0.0.1, from which the client of the tests calls."""
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("127.0.0.1",), user_header=b"x-forwarded-user")
    async with api_environment(settings) as one:
        await one.engine.users.add(TokenDraft("ada", "operator"), None, ANN)
        yield one


async def log_in(env: ApiEnvironment, user: str = "ada", password: str = PASSWORD, **headers: str) -> tuple[int, str]:
    response = await env.client.post("/v1/session", json={"user": user, "password": password}, headers=headers)
    env.client.cookies.clear()
    return response.status_code, response.headers.get("set-cookie", "")


def cookie(header: str) -> dict[str, str]:
    return {"Cookie": header.partition(";")[0], **OURS}


async def test_a_session_with_a_password_may_do_what_the_user_may_and_the_ledger_names_the_user(
    env: ApiEnvironment,
) -> None:
    status, header = await log_in(env)
    assert status == 201
    assert "; HttpOnly; SameSite=Strict" in header
    assert PASSWORD not in header
    mine = body_of(await env.client.get("/v1/me", headers=cookie(header)))
    assert (mine["name"], mine["role"], mine["queues"]) == ("ada", "operator", ["mail"])
    body_of(await env.client.post("/v1/queues/mail/pause", headers=cookie(header)))
    problem_of(await env.client.post("/v1/queues/other/pause", headers=cookie(header)), 403)
    assert (await env.store.ledger())[0].actor == "ada"


@pytest.mark.parametrize(("user", "password"), [("ada", "correct horse batterx"), ("bob", PASSWORD), ("ada", "")])
async def test_a_wrong_name_and_a_wrong_password_are_answered_alike(
    env: ApiEnvironment, user: str, password: str
) -> None:
    answer = await env.client.post("/v1/session", json={"user": user, "password": password})
    assert problem_of(answer, 401)["detail"] == "the name or the password is wrong"
    assert "set-cookie" not in answer.headers


async def test_a_login_needs_both_and_not_a_token_besides(env: ApiEnvironment) -> None:
    for body in ({}, {"user": "ada"}, {"password": PASSWORD}):
        problem_of(await env.client.post("/v1/session", json=body), 401)
    both = await env.client.post("/v1/session", json={"user": "ada", "password": PASSWORD}, headers=ADMIN)
    assert fields_of(problem_of(both, 422)) == {"user"}


async def test_a_page_of_another_site_cannot_log_a_visitor_in(env: ApiEnvironment) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        assert (await log_in(env, **headers))[0] == 403


async def test_wrong_passwords_are_limited_by_address(env: ApiEnvironment) -> None:
    tries = [await log_in(env, f"user{number}", "x" * 12) for number in range(MOST_BY_SOURCE + 1)]
    assert [status for status, _ in tries] == [401] * MOST_BY_SOURCE + [429]
    assert (await log_in(env))[0] == 429, "also with the right password"
    body_of(await env.client.get("/v1/jobs", headers=ADMIN))


async def test_wrong_passwords_of_one_name_are_limited_from_all_addresses_together() -> None:
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("127.0.0.1",))
    async with api_environment(settings) as env:
        await env.engine.users.add(TokenDraft("ada", "viewer"), PASSWORD, ANN)
        statuses = [
            (await log_in(env, password="x" * 12, **{"X-Forwarded-For": f"198.51.{number}.7"}))[0]
            for number in range(MOST_BY_NAME + 1)
        ]
        assert statuses == [401] * MOST_BY_NAME + [429]
        assert (await log_in(env, "bob", "x" * 12, **{"X-Forwarded-For": "203.0.113.9"}))[0] == 401


async def test_logins_at_once_do_not_slip_through_the_limit(env: ApiEnvironment) -> None:
    tries = await asyncio.gather(*(log_in(env, password="x" * 12) for _ in range(MOST_BY_SOURCE + 5)))
    assert sorted(status for status, _ in tries) == [401] * MOST_BY_SOURCE + [429] * 5


async def test_a_flood_of_logins_is_refused_with_one_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From many addresses and for many names, so that neither limit holds it back."""
    monkeypatch.setattr("rota.engine.users._MOST_WAITING", 3)
    monkeypatch.setattr("rota.engine.users.is_password_of", lambda *_: False)
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("127.0.0.1",))
    async with api_environment(settings) as env:
        tries = (
            env.client.post(
                "/v1/session",
                json={"user": f"user{number}", "password": PASSWORD},
                headers={"X-Forwarded-For": f"198.51.100.{number}"},
            )
            for number in range(40)
        )
        answers = await asyncio.gather(*tries)
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {401, 429}
        assert {problem_of(answer, 429)["code"] for answer in refused} == {"too_many_logins"}
        assert all(answer.headers["retry-after"] == "2" for answer in refused)
        assert sum("too_many_logins" in record.getMessage() for record in caplog.records) == 1
        assert "the store is unavailable" not in caplog.text


async def test_right_logins_are_not_counted(env: ApiEnvironment) -> None:
    statuses = [(await log_in(env))[0] for _ in range(MOST_BY_SOURCE + 2)]
    assert statuses == [201] * (MOST_BY_SOURCE + 2)


@pytest.mark.parametrize("how", ["remove", "passwd"])
async def test_sessions_end_with_the_user_and_with_the_password(env: ApiEnvironment, how: str) -> None:
    _, header = await log_in(env)
    body_of(await env.client.get("/v1/me", headers=cookie(header)))
    if how == "remove":
        body_of(await env.client.delete("/v1/users/ada", headers=ADMIN))
    else:
        other = {"password": f"{PASSWORD} too"}
        body_of(await env.client.post("/v1/users/ada/password", json=other, headers=ADMIN))
        assert (await log_in(env, password=f"{PASSWORD} too"))[0] == 201
    problem_of(await env.client.get("/v1/me", headers=cookie(header)), 401)
    assert (await log_in(env))[0] == 401


async def test_the_password_is_stored_as_a_salted_scrypt_hash(env: ApiEnvironment) -> None:
    await env.engine.users.add(TokenDraft("bob", "viewer"), PASSWORD, ANN)
    digests = [user.digest for user in await env.engine.users.all()]
    assert len(set(digests)) == 2
    assert all(PASSWORD.encode() not in digest and len(digest) == 49 for digest in digests)
    assert PASSWORD not in str(await env.store.ledger())


async def test_the_row_of_a_user_opens_nothing_as_a_token(env: ApiEnvironment) -> None:
    """A user is stored like a token; its id and its digest must be of no use as a secret."""
    (ada,) = await env.engine.users.all()
    for secret in (ada.id, ada.digest.hex(), f"rota_{ada.id}_{'a' * 32}_00000000"):
        problem_of(await env.client.get("/v1/jobs", headers={"Authorization": f"Bearer {secret}"}), 401)
    assert body_of(await env.client.get("/v1/tokens", headers=ADMIN))["items"] == []
    problem_of(await env.client.post(f"/v1/tokens/{ada.id}/rotate", headers=ADMIN), 404)


async def test_a_name_belongs_to_one_user_or_token(env: ApiEnvironment) -> None:
    with pytest.raises(IllegalTransition, match="has this name"):
        await env.engine.tokens.create(TokenDraft("ada", "viewer"), ANN)
    with pytest.raises(IllegalTransition, match="has this name"):
        await env.engine.users.add(TokenDraft("ada", "viewer"), PASSWORD, ANN)
    with pytest.raises(InvalidRequest, match="name"):
        await env.engine.users.add(TokenDraft("a\nb", "viewer"), PASSWORD, ANN)


async def test_nobody_can_add_or_change_a_user_that_is_granted_more(env: ApiEnvironment) -> None:
    _, secret = await env.engine.tokens.create(TokenDraft("ops", "", ("tokens.edit", "jobs.read")), ANN)
    headers = {"Authorization": f"Bearer {secret}"}
    body = {"name": "eve", "role": "admin", "password": PASSWORD}
    problem_of(await env.client.post("/v1/users", json=body, headers=headers), 403)
    problem_of(await env.client.post("/v1/users/ada/password", json={"password": PASSWORD}, headers=headers), 403)
    problem_of(await env.client.delete("/v1/users/ada", headers=headers), 403)


@pytest.mark.parametrize("password", ["", "short", "a" * 12, "x" * 1001])
async def test_a_weak_password_is_refused(env: ApiEnvironment, password: str) -> None:
    body = {"name": "eve", "role": "viewer", "password": password}
    assert fields_of(problem_of(await env.client.post("/v1/users", json=body, headers=ADMIN), 422)) == {"password"}


def test_a_hash_fits_its_password_only() -> None:
    digest = digest_of_password("pässword-ähm", b"s" * 16)
    assert is_password_of(digest, "pässword-ähm")
    assert not any(is_password_of(one, "pässword-ähm") for one in (b"", b"\0", b"\2" + digest[1:], digest[:-1]))
    assert not is_password_of(digest, "passwort")


async def test_a_proxy_names_the_user(proxied: ApiEnvironment) -> None:
    named = {"X-Forwarded-User": "ada", **OURS}
    mine = body_of(await proxied.client.get("/v1/me", headers=named))
    assert (mine["name"], mine["role"]) == ("ada", "operator")
    body_of(await proxied.client.post("/v1/queues/mail/pause", headers=named))
    assert (await proxied.store.ledger())[0].actor == "ada"
    problem_of(await proxied.client.get("/v1/me", headers={"X-Forwarded-User": "bob"}), 401)
    problem_of(await proxied.client.get("/v1/me", headers={"X-Forwarded-User": ""}), 401)


async def test_a_user_that_a_proxy_names_must_have_asked_for_a_change_on_a_page_of_ours(
    proxied: ApiEnvironment,
) -> None:
    named = {"X-Forwarded-User": "ada"}
    problem_of(await proxied.client.post("/v1/queues/mail/pause", headers=named), 403)
    cross = {**named, "Sec-Fetch-Site": "cross-site"}
    problem_of(await proxied.client.post("/v1/queues/mail/pause", headers=cross), 403)


async def test_a_repeated_header_names_nobody(proxied: ApiEnvironment) -> None:
    """A proxy that adds its header to that of the caller would let the caller choose."""
    twice = [("X-Forwarded-User", "ada"), ("x-forwarded-user", "bob")]
    assert problem_of(await proxied.client.get("/v1/me", headers=twice), 400)["code"] == "repeated_header"


async def test_the_header_of_others_names_nobody() -> None:
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("10.0.0.1",), user_header=b"x-forwarded-user")
    async with api_environment(settings) as env:
        await env.engine.users.add(TokenDraft("ada", "admin"), None, ANN)
        named = {"X-Forwarded-User": "ada", "X-Forwarded-For": "10.0.0.1"}
        problem_of(await env.client.get("/v1/me", headers=named), 401)


async def test_a_user_without_a_password_cannot_log_in_with_one(proxied: ApiEnvironment) -> None:
    for password in ("", "\0", PASSWORD):
        assert (await log_in(proxied, password=password))[0] == 401


async def test_a_removed_user_is_refused_through_the_proxy_too(proxied: ApiEnvironment) -> None:
    named = {"X-Forwarded-User": "ada"}
    body_of(await proxied.client.get("/v1/me", headers=named))
    body_of(await proxied.client.delete("/v1/users/ada", headers=ADMIN))
    problem_of(await proxied.client.get("/v1/me", headers=named), 401)


@pytest.mark.parametrize(
    "changes",
    [
        {"proxy_user_header": "X-User"},
        {"proxy_user_header": "X-User", "token": ROOT},
        {"proxy_user_header": "X-User", "behind_proxy": ("10.0.0.1",)},
        {"proxy_user_header": "Authorization", "token": ROOT, "behind_proxy": ("10.0.0.1",)},
        {"proxy_user_header": "X User", "token": ROOT, "behind_proxy": ("10.0.0.1",)},
    ],
)
def test_a_header_that_anybody_could_send_is_refused_at_the_start(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="proxy_user_header"):
        user_header_of(Settings(**changes))  # type: ignore[arg-type]
