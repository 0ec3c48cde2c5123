"""The router: paths it finds, paths it does not, and paths it refuses."""

from __future__ import annotations

import httpx
import pytest

from api.environment import ApiEnvironment, body_of, problem_of
from rota.api.router import Router
from rota.api.routes import ROUTES

THINGS = {
    "/": "root",
    "/jobs": "jobs",
    "/jobs/{id}": "job",
    "/jobs/newest": "newest",
    "/jobs/{id}/cancel": "cancel",
    "/{kind}/all/cancel": "cancel all",
    "/a/b/{key}": "key",
}


@pytest.mark.parametrize(
    ("path", "thing", "names"),
    [
        ("/", "root", {}),
        ("/jobs", "jobs", {}),
        ("/jobs/7", "job", {"id": "7"}),
        ("/jobs/{id}", "job", {"id": "{id}"}),
        ("/jobs/newest", "newest", {}),
        ("/jobs/newest/cancel", "cancel", {"id": "newest"}),
        ("/jobs/all/cancel", "cancel all", {"kind": "jobs"}),
        ("/a/b/ü b", "key", {"key": "ü b"}),
    ],
)
def test_a_path_is_found_with_the_name_in_it(path: str, thing: str, names: dict[str, str]) -> None:
    assert Router(THINGS).find(path) == (thing, names)


@pytest.mark.parametrize(
    "path", ["", "jobs", "/jobs/", "/jobs//cancel", "//jobs", "/jobs/7/", "/jobs/7/8", "/a/b", "/b/a/7"]
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    assert Router(THINGS).find(path) is None


@pytest.mark.parametrize("path", ["/jobs/{other}", "/jobs/{id}:cancel", "/jobs/x{id}", "/{a}/{b}"])
def test_a_path_that_could_not_be_told_apart_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Router({**THINGS, path: "wrong"})


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_every_route_is_found_under_its_own_path(path: str) -> None:
    found = Router({route.path: route.path for route in ROUTES}).find(path)
    assert found is not None
    assert found[0] == path


async def test_the_api_can_be_mounted_under_a_path_of_somebody_elses_application(env: ApiEnvironment) -> None:
    mounted = httpx.ASGITransport(env.api, root_path="/queue")
    async with httpx.AsyncClient(transport=mounted, base_url="http://127.0.0.1") as client:
        job = body_of(await client.post("/queue/v1/jobs", json={"type": "mail"}), 201)
        assert body_of(await client.get(f"/queue/v1/jobs/{job['id']}"))["type"] == "mail"
        assert problem_of(await client.put("/queue/v1/jobs"), 405)["code"] == "method_not_allowed"
        problem_of(await client.get("/queue/v2/jobs"), 404)


@pytest.mark.parametrize("root", ["/v", "/v1/jo", "/queue", "/queue/", "/"])
async def test_a_proxy_may_take_the_path_that_we_are_mounted_under_away(env: ApiEnvironment, root: str) -> None:
    """Only whole parts of a path are the other's: `/v1` does not lie below `/v`."""
    mounted = httpx.ASGITransport(env.api, root_path=root)
    async with httpx.AsyncClient(transport=mounted, base_url="http://127.0.0.1") as client:
        body_of(await client.post("/v1/jobs", json={"type": "mail"}), 201)
        body_of(await client.post(f"{root.rstrip('/')}/v1/jobs", json={"type": "mail"}), 201)
