"""The dashboard's files: what is served at which address, with which headers, to whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, problem_of, served
from rota.api import ApiKey, ApiSettings
from rota.api import ui as ui_module

PAGE = '<!doctype html><meta name="rota-root" content="{root}"><script src="{root}assets/app-AB12.js"></script>'
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Files as a build makes them: these tests need no Node."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "app-AB12.js").write_text("export {}", encoding="utf-8")
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "icon.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / ".sources").write_text("digest", encoding="utf-8")
    monkeypatch.setattr(ui_module, "FILES", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    ui_module._files.cache_clear()
    ui_module._page.cache_clear()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/ui", "ui/"),
        ("/ui/", "./"),
        ("/ui/jobs", "./"),
        ("/ui/jobs/0aj", "../"),
        ("/ui/schedules/a%20b/edit", "../../"),
    ],
)
async def test_every_address_gets_the_page_and_it_finds_its_files(env: ApiEnvironment, path: str, root: str) -> None:
    response = await env.client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert f'content="{root}"' in response.text
    script = httpx.URL(f"http://localhost{path}").join(f"{root}assets/app-AB12.js")
    assert (await env.client.get(script.path)).text == "export {}"


@pytest.mark.usefixtures("files")
async def test_files_are_cached_by_their_hash_and_the_page_is_asked_for_again(env: ApiEnvironment) -> None:
    asset = await env.client.get("/ui/assets/app-AB12.js")
    assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert asset.headers["content-type"] == "text/javascript; charset=utf-8"
    page = await env.client.get("/ui")
    assert page.headers["cache-control"] == "no-cache"
    for path, first in (("/ui", page), ("/ui/assets/app-AB12.js", asset)):
        again = await env.client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = await env.client.head(path)
        assert (head.content, head.headers["content-length"]) == (b"", first.headers["content-length"])


@pytest.mark.usefixtures("files")
async def test_files_are_compressed_where_the_browser_takes_that(env: ApiEnvironment) -> None:
    for accepted, encoding in (("gzip, br", "gzip"), ("identity", None)):
        response = await env.client.get("/ui/assets/app-AB12.js", headers={"Accept-Encoding": accepted})
        assert (response.headers.get("content-encoding"), response.text) == (encoding, "export {}")
        assert response.headers["vary"] == "accept-encoding"


@pytest.mark.usefixtures("files")
async def test_the_policy_lets_nothing_in_from_elsewhere(env: ApiEnvironment) -> None:
    for path in ("/ui", "/ui/assets/app-AB12.js", "/ui/icon.svg"):
        headers = (await env.client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("path", ["/ui/assets/none.js", "/ui/assets/../../app.py", "/ui/assets/..%2f.sources"])
async def test_what_is_no_file_is_not_found(env: ApiEnvironment, path: str) -> None:
    async with served(env.api) as address, httpx.AsyncClient(base_url=address) as client:
        response = await client.send(httpx.Request("GET", f"{address}{path}"))
        assert response.status_code in {200, 404}
        assert "digest" not in response.text
        assert "Api" not in response.text
    problem_of(await env.client.get("/ui/assets/none.js"), 404)


@pytest.mark.usefixtures("files")
async def test_nothing_is_changed_through_the_dashboard(env: ApiEnvironment) -> None:
    assert problem_of(await env.client.post("/ui", json={}), 405)["detail"].startswith("POST is not possible")


async def test_without_built_files_the_page_says_how_to_build_them(
    env: ApiEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_module, "FILES", tmp_path / "none")
    _forget()
    response = await env.client.get("/ui/jobs")
    _forget()
    assert "make ui" in response.text


@pytest.mark.usefixtures("files")
async def test_the_bare_address_leads_browsers_to_the_dashboard(env: ApiEnvironment) -> None:
    response = await env.client.get("/", headers=BROWSER)
    assert (response.status_code, response.headers["location"]) == (303, "ui")
    assert "Rota API" in (await env.client.get("/")).text
    proxied = await env.client.get("/", headers={**BROWSER, "X-Forwarded-Prefix": "/rota/"})
    assert proxied.headers["location"] == "/rota/ui"
    wrong = await env.client.get("/", headers={**BROWSER, "X-Forwarded-Prefix": "//evil.example"})
    assert wrong.headers["location"] == "ui"


@pytest.mark.usefixtures("files")
async def test_it_can_be_mounted_below_a_prefix(env: ApiEnvironment) -> None:
    transport = httpx.ASGITransport(app=env.api, root_path="/tools")
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert 'content="./"' in (await client.get("/tools/ui/jobs")).text
        assert (await client.get("/tools/livez")).json() == {"status": "ok"}


@pytest.mark.usefixtures("files")
async def test_files_need_no_token_and_the_api_does() -> None:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", "hush"),))) as env:
        assert (await env.client.get("/ui")).status_code == 200
        assert (await env.client.get("/ui/assets/app-AB12.js")).status_code == 200
        assert (await env.client.get("/v1/jobs")).status_code == 401
        assert (await env.client.get("/uid")).status_code == 401


@pytest.mark.usefixtures("files")
async def test_a_link_from_another_site_may_be_followed_but_a_foreign_name_is_refused(env: ApiEnvironment) -> None:
    assert (await env.client.get("/ui", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 200
    problem_of(await env.client.get("/ui", headers={"Host": "evil.example"}), 403)


@pytest.mark.usefixtures("files")
async def test_it_can_be_switched_off() -> None:
    async with api_environment(ApiSettings(ui=False)) as env:
        problem_of(await env.client.get("/ui"), 404)
        assert "Rota API" in (await env.client.get("/", headers=BROWSER)).text


@pytest.mark.usefixtures("files")
async def test_it_is_served_over_a_socket(env: ApiEnvironment) -> None:
    async with served(env.api) as address, httpx.AsyncClient(base_url=address) as client:
        for _ in range(2):
            assert (await client.get("/ui/assets/app-AB12.js")).text == "export {}"
            assert (await client.get("/livez")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("path", "root"),
    [("/ui/jobs/x", "../"), ("/ui/types/a%2Fb", "../"), ("/ui/types/a%2fb%2Fc", "../"), ("/ui/x", "./")],
)
async def test_a_slash_within_a_name_does_not_lead_the_page_astray(env: ApiEnvironment, path: str, root: str) -> None:
    page = await env.client.get(path)
    assert f'content="{root}"' in page.text
