"""Dead letters: grouped by cause, retried at once or at a rate, discarded, exported."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest

from api.environment import ApiEnvironment, body_of, problem_of


async def test_dead_letters_are_listed_and_grouped_by_cause(env: ApiEnvironment) -> None:
    for number in range(3):
        await env.dead(f"port {number} is closed")
    odd = await env.dead("disk full", type="backup")
    listed = body_of(await env.client.get("/v1/dead-letters?limit=2"))
    rest = body_of(await env.client.get(f"/v1/dead-letters?limit=2&cursor={listed['next_cursor']}"))
    assert len(listed["items"] + rest["items"]) == 4
    groups = body_of(await env.client.get("/v1/dead-letters/groups"))
    assert [(group["type"], group["count"]) for group in groups["items"]] == [("mail", 3), ("backup", 1)]
    assert groups["items"][1]["example_id"] == odd["id"]
    assert groups["items"][1]["error"]["message"] == "disk full"
    assert groups["is_complete"] is True
    name = groups["items"][0]["fingerprint"]
    assert len(body_of(await env.client.get(f"/v1/dead-letters?fingerprint={name}"))["items"]) == 3


async def test_a_group_shows_how_many_died_in_each_hour_of_the_last_day(env: ApiEnvironment) -> None:
    await env.dead("port 1 is closed")
    await env.dead("port 2 is closed", tags=["slow"])
    page = body_of(await env.client.get("/v1/dead-letters/groups"))
    (group,) = page["items"]
    since = datetime.fromisoformat(page["trend_since"])
    assert (since.minute, since.second, len(group["trend"])) == (0, 0, 24)
    died = datetime.fromisoformat(group["last_at"])
    assert group["trend"][(died - since) // timedelta(hours=1)] > 0
    assert sum(group["trend"]) == 2
    assert (group["tags"], group["note"]) == (["slow"], None)


async def test_a_note_on_a_cause_is_shown_with_its_group_until_it_is_removed(env: ApiEnvironment) -> None:
    await env.dead("disk full")
    await env.dead("port 1 is closed")
    group, other = body_of(await env.client.get("/v1/dead-letters/groups"))["items"]
    cause = {"type": group["type"], "fingerprint": group["fingerprint"]}
    for text in ("first", " see #12\nBob knows "):
        note = body_of(await env.client.put("/v1/dead-letters/groups/note", json={**cause, "text": text}))
    assert (note["text"], note["set_by"]) == ("see #12\nBob knows", "anonymous")
    shown = body_of(await env.client.get("/v1/dead-letters/groups"))["items"]
    assert {one["fingerprint"]: one["note"] for one in shown} == {
        group["fingerprint"]: note,
        other["fingerprint"]: None,
    }
    path = f"/v1/dead-letters/groups/note?type={cause['type']}&fingerprint={cause['fingerprint']}"
    assert (await env.client.delete(path)).status_code == 204
    problem_of(await env.client.delete(path), 404)
    shown = body_of(await env.client.get("/v1/dead-letters/groups"))["items"]
    assert [one["note"] for one in shown] == [None, None]
    ledger = [(one.action, one.target, one.detail) for one in reversed(await env.store.ledger())]
    target = f"{cause['type']} {cause['fingerprint']}"
    assert ledger == [
        ("dead_letters.set_note", target, "first"),
        ("dead_letters.set_note", target, "see #12\nBob knows"),
        ("dead_letters.remove_note", target, ""),
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"fingerprint": "0af1"}, 404),
        ({"type": "other"}, 404),
        ({"fingerprint": ""}, 404),
        ({"fingerprint": "ZZ"}, 422),
        ({"text": " \n"}, 422),
        ({"text": "x" * 1001}, 422),
        ({"text": "a\0b"}, 422),
        ({"txt": "?"}, 422),
    ],
)
async def test_a_wrong_note_is_refused(env: ApiEnvironment, change: dict[str, str], status: int) -> None:
    await env.dead("disk full")
    (group,) = body_of(await env.client.get("/v1/dead-letters/groups"))["items"]
    note = {"type": group["type"], "fingerprint": group["fingerprint"], "text": "?", **change}
    problem_of(await env.client.put("/v1/dead-letters/groups/note", json=note), status)
    assert await env.store.dead_notes() == []


async def test_one_is_sent_round_again(env: ApiEnvironment) -> None:
    dead = await env.dead()
    assert body_of(await env.client.post(f"/v1/dead-letters/{dead['id']}/retry"))["status"] == "pending"
    problem_of(await env.client.post(f"/v1/dead-letters/{dead['id']}/retry"), 409)
    problem_of(await env.client.post("/v1/dead-letters/0000000000001/retry"), 404)


@pytest.mark.parametrize(
    ("choice", "done"), [({"all": True}, 3), ({"type": "mail"}, 2), ({"queue": "other"}, 1), ({"ids": []}, 0)]
)
@pytest.mark.parametrize("deed", ["retry", "discard"])
async def test_a_choice_is_retried_or_discarded(
    env: ApiEnvironment, deed: str, choice: dict[str, object], done: int
) -> None:
    for fields in ({"type": "mail"}, {"type": "mail"}, {"type": "backup", "queue": "other"}):
        await env.dead(**fields)
    reply = body_of(await env.client.post(f"/v1/dead-letters:{deed}", json=choice))
    assert (reply["done"], reply["refused"], reply["is_going_on"]) == (done, [], False)
    assert body_of(await env.client.get("/stats"))["dlq_size"] == 3 - done


async def test_what_cannot_be_done_is_named(env: ApiEnvironment) -> None:
    alive, dead = await env.submit(), await env.dead(queue="other")
    reply = body_of(await env.client.post("/v1/dead-letters:discard", json={"ids": [alive["id"], dead["id"]]}))
    assert (reply["done"], [item["status"] for item in reply["refused"]]) == (1, [409])
    assert (await env.client.delete(f"/v1/dead-letters/{alive['id']}")).status_code == 409


async def test_one_is_discarded(env: ApiEnvironment) -> None:
    dead = await env.dead()
    assert (await env.client.delete(f"/v1/dead-letters/{dead['id']}")).status_code == 204
    problem_of(await env.client.get(f"/v1/jobs/{dead['id']}"), 404)


@pytest.mark.parametrize("choice", [{}, {"all": True, "type": "a"}, {"ids": [], "all": True}, {"all": False}])
async def test_a_choice_must_say_one_thing(env: ApiEnvironment, choice: dict[str, object]) -> None:
    problem_of(await env.client.post("/v1/dead-letters:retry", json=choice), 422)


@pytest.mark.parametrize("field", ["type", "queue"])
async def test_a_pattern_is_refused_before_the_answer_begins(env: ApiEnvironment, field: str) -> None:
    """It found nothing, as if there were no dead letters."""
    await env.dead()
    for path in ("", "/export"):
        problem = problem_of(await env.client.get(f"/v1/dead-letters{path}?{field}=ma*"), 422)
        assert problem["detail"].startswith(f"{field}: 'ma*': patterns cannot be searched for")
    for choice in ({field: "ma*"}, {field: "ma*", "rate": 1}):
        problem_of(await env.client.post("/v1/dead-letters:retry", json=choice), 422)


async def test_a_rate_spreads_the_retries(env: ApiEnvironment) -> None:
    for _ in range(6):
        await env.dead()
    begun = asyncio.get_running_loop().time()
    reply = body_of(await env.client.post("/v1/dead-letters:retry", json={"all": True, "rate": 20}), 202)
    assert reply["is_going_on"] is True
    seen: set[str] = set()
    while len(seen) < 6:
        seen |= {job["id"] for job in await env.claim(wait=10)}
    assert asyncio.get_running_loop().time() - begun >= 0.1
    assert body_of(await env.client.get("/stats"))["dlq_size"] == 0


async def test_all_are_exported_line_by_line(env: ApiEnvironment) -> None:
    ids = {(await env.dead())["id"] for _ in range(3)}
    response = await env.client.get("/v1/dead-letters/export")
    assert response.headers["content-type"] == "application/x-ndjson"
    assert {json.loads(line)["id"] for line in response.text.splitlines()} == ids
