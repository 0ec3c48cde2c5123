"""The API and the dashboard within another ASGI application: below a prefix, with its own login or with Rota's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.environment import body_of, problem_of
from rota import Rota
from rota.core.errors import InvalidRequest
from rota.runtime.mounted import MountedApi

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]
BROWSER = {"Accept": "text/html"}


def mounted(inner: MountedApi, prefix: str, *, keeps_path: bool = True) -> Asgi:
    """Mount as frameworks do: `root_path` names the prefix; the path has it (ASGI 3) or lacks it (older ones)."""

    async def outer(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        if scope["type"] == "http" and scope["path"].startswith(prefix):
            path = scope["path"] if keeps_path else scope["path"].removeprefix(prefix)
            await inner({**scope, "root_path": prefix, "path": path}, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the outer application"})

    return outer


@asynccontextmanager
async def asking(asgi: Asgi, host: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=asgi)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        yield client


@pytest.mark.parametrize("keeps_path", [True, False])
async def test_it_answers_below_a_prefix_and_leaves_other_addresses_alone(tmp_path: Path, *, keeps_path: bool) -> None:
    app = Rota(str(tmp_path / "rota.db"))
    inner = app.asgi()
    async with asking(mounted(inner, "/ops", keeps_path=keeps_path)) as client:
        assert (await client.get("/")).text == "the outer application"
        made = body_of(await client.post("/ops/v1/jobs", json={"type": "echo"}), 201)
        assert body_of(await client.get(f"/ops/v1/jobs/{made['id']}"))["status"] == "pending"
        page = await client.get("/ops/ui/jobs/x", headers=BROWSER)
        assert 'content="../"' in page.text
        home = await client.get("/ops", headers=BROWSER)
        assert (home.status_code, home.headers["location"]) == (303, "/ops/ui")
        assert (await client.get("/ops/nothing")).status_code == 404
    await inner.aclose()


async def test_the_prefix_of_a_proxy_comes_before_that_of_the_mount(tmp_path: Path) -> None:
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    for prefix, place in (("/shop", "/shop/ops/ui"), ("/ops", "/ops/ui"), ('/"><script>', "/ops/ui")):
        async with asking(mounted(inner, "/ops")) as client:
            home = await client.get("/ops/", headers={**BROWSER, "X-Forwarded-Prefix": prefix})
            assert home.headers["location"] == place
    await inner.aclose()


async def test_other_hosts_are_refused_unless_the_outer_application_is_trusted(tmp_path: Path) -> None:
    app = Rota(str(tmp_path / "rota.db"))
    guarded, trusting = app.asgi(), app.asgi(trusts_callers=True)
    async with asking(guarded, "shop.example.com") as client:
        assert (await client.get("/v1/jobs")).status_code in {403, 421}
    async with asking(trusting, "shop.example.com") as client:
        body_of(await client.get("/v1/jobs"))
        codes = {item["code"] for item in body_of(await client.get("/v1/attention"))["items"]}
        assert "insecure" not in codes
    await guarded.aclose()
    await trusting.aclose()


async def test_a_token_of_the_settings_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "0123456789abcdef0123456789abcdef")
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    async with asking(mounted(inner, "/ops")) as client:
        problem_of(await client.get("/ops/v1/jobs"), 401)
        bearer = {"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}
        body_of(await client.get("/ops/v1/jobs", headers=bearer))
    await inner.aclose()


@pytest.mark.parametrize("keeps_path", [True, False])
async def test_people_log_in_and_probes_need_no_token_below_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keeps_path: bool
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "0123456789abcdef0123456789abcdef")
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    bearer = {"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}
    async with asking(mounted(inner, "/ops", keeps_path=keeps_path)) as client:
        ada = {"name": "ada", "role": "viewer", "password": "correct horse battery"}
        body_of(await client.post("/ops/v1/users", json=ada, headers=bearer), 201)
        login = {"user": "ada", "password": "correct horse battery"}
        session = await client.post("/ops/v1/session", json=login)
        assert session.status_code == 201, session.text
        assert "; Path=/ops;" in session.headers["set-cookie"]
        assert body_of(await client.get("/ops/v1/me"))["name"] == "ada"
        client.cookies.clear()
        body_of(await client.get("/ops/livez"))
        problem_of(await client.get("/ops/metrics"), 401)
        problem_of(await client.get("/ops/v1/session"), 401)
    await inner.aclose()


@pytest.mark.parametrize("keeps_path", [True, False])
async def test_answers_have_the_form_and_the_address_of_their_path(tmp_path: Path, *, keeps_path: bool) -> None:
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    async with asking(mounted(inner, "/ops", keeps_path=keeps_path)) as client:
        for path, has_older_names in (("/ops/v1/jobs", False), ("/ops/tasks", True)):
            made = await client.post(path, json={"type": "echo"})
            assert ("due_at" in body_of(made, 201)) == has_older_names
            shown = await client.get(made.headers["location"])
            assert ("due_at" in body_of(shown)) == has_older_names
        page = await client.get("/ops/jobs?limit=1")
        following = page.headers["link"].partition(">")[0].removeprefix("<")
        assert following.startswith("/ops/jobs?")
        assert (await client.get(following)).status_code == 200
    await inner.aclose()


async def test_it_is_a_member_until_it_is_closed_and_opens_again(tmp_path: Path) -> None:
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    async with asking(inner) as client:
        for _ in range(2):
            body_of(await client.get("/v1/jobs"))
            await inner.aclose()


async def test_the_lifespan_closes_it(tmp_path: Path) -> None:
    inner = Rota(str(tmp_path / "rota.db")).asgi()
    async with asking(inner) as client:
        body_of(await client.get("/v1/jobs"))
    messages: list[Scope] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    answers: list[str] = []

    async def receive() -> Scope:
        return messages.pop(0)

    async def send(message: Scope) -> None:
        answers.append(message["type"])

    await inner({"type": "lifespan"}, receive, send)
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert inner._api is None


async def test_a_store_that_is_away_is_a_503_until_it_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    inner = Rota(str(folder / "rota.db")).asgi()
    async with asking(inner) as client:
        assert problem_of(await client.get("/v1/jobs"), 503)["code"] == "store_unavailable"
        folder.mkdir()
        body_of(await client.get("/v1/jobs"))
    await inner.aclose()


def test_an_api_over_http_cannot_be_mounted() -> None:
    with pytest.raises(InvalidRequest, match="needs a store"):
        Rota("http://127.0.0.1:1").asgi()
