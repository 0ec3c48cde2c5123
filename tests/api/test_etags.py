"""Answers below /v1 have an ETag; a client that names it gets an empty 304 until the answer changes."""

from __future__ import annotations

import pytest

from api.environment import ApiEnvironment

LISTS = ["/v1/jobs", "/v1/schedules", "/v1/queues", "/v1/workers", "/v1/limits", "/v1/events", "/v1/operations"]


@pytest.mark.parametrize("path", LISTS)
async def test_an_unchanged_list_is_answered_without_a_body(env: ApiEnvironment, path: str) -> None:
    first = await env.client.get(path)
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    for named in (tag, f'"other", {tag}', "*"):
        again = await env.client.get(path, headers={"If-None-Match": named})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await env.client.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


async def test_a_change_ends_what_was_known(env: ApiEnvironment) -> None:
    tag = (await env.client.get("/v1/jobs")).headers["etag"]
    await env.submit()
    again = await env.client.get("/v1/jobs", headers={"If-None-Match": tag, "Rota-Client": "ui"})
    assert (again.status_code, len(again.json()["items"])) == (200, 1)


async def test_one_job_keeps_the_tag_that_edits_are_conditional_on(env: ApiEnvironment) -> None:
    job = await env.submit()
    path = f"/v1/jobs/{job['id']}"
    tag = (await env.client.get(path)).headers["etag"]
    assert not tag.startswith("W/")
    assert (await env.client.get(path, headers={"If-None-Match": tag})).status_code == 304


async def test_what_is_no_answer_of_a_list_has_none(env: ApiEnvironment) -> None:
    assert "etag" not in (await env.client.get("/v1/jobs/nope")).headers
    assert "etag" not in (await env.client.get("/health")).headers
