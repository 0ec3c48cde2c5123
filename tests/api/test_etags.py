"""Answers below /v1 have an ETag; a client that names it gets an empty 304 until the answer changes."""

from __future__ import annotations

import pytest

from api.staging import Stage

LISTS = ["/v1/jobs", "/v1/schedules", "/v1/queues", "/v1/workers", "/v1/limits", "/v1/events", "/v1/operations"]


@pytest.mark.parametrize("path", LISTS)
async def test_an_unchanged_list_is_answered_without_a_body(stage: Stage, path: str) -> None:
    first = await stage.client.get(path)
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    for named in (tag, f'"other", {tag}', "*"):
        again = await stage.client.get(path, headers={"If-None-Match": named})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await stage.client.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


async def test_a_change_ends_what_was_known(stage: Stage) -> None:
    tag = (await stage.client.get("/v1/jobs")).headers["etag"]
    await stage.submit()
    again = await stage.client.get("/v1/jobs", headers={"If-None-Match": tag, "Rota-Client": "ui"})
    assert (again.status_code, len(again.json()["items"])) == (200, 1)


async def test_one_job_keeps_the_tag_that_edits_are_conditional_on(stage: Stage) -> None:
    job = await stage.submit()
    path = f"/v1/jobs/{job['id']}"
    tag = (await stage.client.get(path)).headers["etag"]
    assert not tag.startswith("W/")
    assert (await stage.client.get(path, headers={"If-None-Match": tag})).status_code == 304


async def test_what_is_no_answer_of_a_list_has_none(stage: Stage) -> None:
    assert "etag" not in (await stage.client.get("/v1/jobs/nope")).headers
    assert "etag" not in (await stage.client.get("/health")).headers
