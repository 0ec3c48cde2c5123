"""No read, count, event, key or error of one namespace shows another: generated from the routes, and at random."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rota.api.router import Route
from rota.api.routes import ROUTES
from runtime.hosted_process import ROOT, STORES, HostedProcess, empty_store, hosted_process

#: Valid bodies of the routes with a path parameter, by form.
BODIES: Final[Mapping[str, object]] = {
    "JobEditRequest": {"priority": 9},
    "ResolveRequest": {"key": "pay", "happened": True},
    "Completion": {"worker_id": "w", "success": True},
    "ScheduleChange": {"cron": "@every 2h"},
    "PauseRequest": {},
    "BackfillRequest": {"from": "2024-01-01T00:00:00Z", "to": "2024-01-02T00:00:00Z"},
    "RetryNodeRequest": {},
    "SkipNodeRequest": {"node": "a"},
    "QueueChange": {"max_depth": 5},
    "LimitChange": {"max_running": 1},
    "LimitPatch": {"max_running": 1},
    "LimitClose": {"reason": "x"},
    "EmitRequest": {"payload": 1},
    "Configured": {"value": "info"},
    "RotateRequest": {},
    "WebhookRotateRequest": {},
    "NamespaceLimitsForm": {},
    "PasswordRequest": {"password": "correct horse battery"},
    "BreakerOpen": {},
    "BreakerClose": {},
    "ViewRequest": {"query": "status=dead"},
}
#: Things that any caller may name; a request for one that does not exist is not an error, or makes it.
NAMED: Final = ("queues", "limits", "breakers", "events", "cluster", "locks", "views")
READS: Final = sorted(
    route.path
    for route in ROUTES
    if route.method == "GET" and "{" not in route.path and not route.path.endswith(("/stream", "next-job"))
)
#: What is of the server and not of a namespace.
OF_SERVER: Final = {"/openapi.json", "/docs", "/", "/livez", "/readyz", "/healthz"}


@pytest.fixture(params=STORES)
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HostedProcess]:
    async with empty_store(request.param, tmp_path) as url, hosted_process(url) as one:
        for name in ("acme", "beta"):
            await one.ask("POST", "/v1/namespaces", 201, json={"name": name})
        yield one


async def filled(host: HostedProcess, token: str, mark: str) -> dict[str, str]:
    """Make one thing of each kind, and give their ids by the kind in the path."""

    async def made(path: str, body: object, status: int = 201) -> Any:  # noqa: ANN401 - JSON
        return await host.ask("POST", path, status, token=token, json=body)

    job = await made("/v1/jobs", {"type": mark, "queue": mark, "payload": mark, "tags": [mark], "delay": "1h"})
    schedule = await made("/v1/schedules", {"name": mark, "cron": "@every 1h", "job": {"type": mark, "queue": mark}})
    graph = {"name": mark, "nodes": [{"name": "a", "type": mark}, {"name": "b", "type": mark}]}
    workflow = await made("/v1/workflows", graph)
    operation = await made("/v1/operations", {"action": "cancel", "q": f"type:{mark}none"}, 202)
    webhook = await made("/v1/webhooks", {"name": mark, "url": f"https://{mark}.example.com", "events": ["job.dead"]})
    other = await made("/v1/tokens", {"name": mark, "role": "viewer"})
    await host.ask("POST", f"/v1/queues/{mark}/pause", token=token, json={"reason": mark})
    await host.ask("PUT", f"/v1/limits/queue:{mark}", None, token=token, json={"max_running": 1})
    await made("/v1/locks:acquire", {"name": mark, "holder": mark, "hold": "1h"}, 200)
    await host.ask("POST", f"/v1/events/{mark}", None, token=token, json={"payload": mark})
    await host.ask("PUT", f"/v1/views/{mark}", token=token, json={"query": f"queue={mark}"})
    return {
        "jobs": job["id"], "tasks": job["id"], "dead-letters": job["id"], "schedules": schedule["id"],
        "workflows": workflow["id"], "operations": operation["id"], "webhooks": webhook["id"], "tokens": other["id"],
        **dict.fromkeys((*NAMED, "users", "workers", "types"), mark),
        "limits": f"queue:{mark}", "cluster": "log_level", "namespaces": "acme",
    }  # fmt: skip


def kind_of(route: Route) -> str:
    return route.path.removeprefix("/v1").split("/")[1]


async def seen(host: HostedProcess, token: str) -> dict[str, Any]:
    """Read all that is in a namespace and does not change by itself."""
    kinds = ("jobs", "schedules", "workflows", "webhooks", "tokens", "locks", "limits", "views")
    paths = [f"/v1/{kind}" for kind in kinds]
    return {path: await host.ask("GET", path, token=token) for path in paths}


async def test_by_every_route_with_an_id_what_is_of_another_namespace_is_unknown(host: HostedProcess) -> None:
    acme, beta = await host.token("acme"), await host.token("beta")
    ids = await filled(host, acme, "acmex")
    # Users are of the default namespace only.
    user = {"name": "acmex", "role": "viewer", "password": "correct horse battery"}
    await host.ask("POST", "/v1/users", 201, json=user)
    await host.ask("POST", "/v1/users", 409, token=acme, json=user)
    beat = {"workers": [{"worker_id": "acmex", "boot_id": "b", "queues": ["default"]}]}
    await host.ask("POST", "/v1/workers:beat", token=acme, json=beat)
    assert (await host.ask("GET", "/v1/workers/acmex", token=acme))["worker_id"] == "acmex"
    before = await seen(host, acme)
    asked = 0
    for route in ROUTES:
        if "{" not in route.path:
            continue
        own = ids[kind_of(route)]
        body: dict[str, Any] = {} if route.body is None else {"json": BODIES[route.body.__name__]}
        answers = {}
        for name in (own, _never_made(own)):
            path = route.path.replace("{id}", name).replace("{name}", name).replace("{key}", name)
            answer = await host.ask(route.method, path, None, token=beta, **body)
            answers[name] = (answer.status_code, _stripped(answer.text, name))
            asked += 1
        where = f"{route.method} {route.path}"
        if kind_of(route) not in NAMED:
            assert {status for status, _ in answers.values()} == {404}, (where, answers)
        elif kind_of(route) != "cluster":
            assert len(set(answers.values())) == 1, (where, answers)
    assert asked > 130
    assert await seen(host, acme) == before


def _never_made(name: str) -> str:
    """Return a name of the same form that does not exist."""
    return name.replace("acme", "none") if "acme" in name else name[:-3] + ("000" if name[-3:] != "000" else "111")


def _stripped(text: str, name: str) -> str:
    """Leave out the name that was requested, and times."""
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text).replace(name, "NAME")


async def test_a_namespace_is_told_nothing_of_the_deployment(host: HostedProcess) -> None:
    """Neither settings, such as the address of the database, nor the paths of files, nor the other namespaces."""
    acme = await host.token("acme")
    listed = await host.ask("GET", "/v1/system/config")
    assert {"store", "host", "allow_hosts"} <= {one["name"] for one in listed["items"]}
    for path in ("/v1/system/config", "/v1/namespaces", "/v1/namespaces/acme"):
        await host.ask("GET", path, 404, token=acme)
    place = host.settings.store.rpartition("@")[2].partition("?")[0]
    for path in set(READS) - OF_SERVER:
        text = (await host.ask("GET", path, None, token=acme)).text
        assert place not in text, path
        assert "beta" not in text, path


async def test_an_id_of_another_namespace_within_a_request_is_unknown_too(host: HostedProcess) -> None:
    """In batches, as a parent, in a selection, a cursor, a stream, or with the lease token that belongs to it."""
    acme, beta = await host.token("acme"), await host.token("beta")
    ids = await filled(host, acme, "acmex")
    other = (await host.ask("POST", "/v1/jobs", 201, token=acme, json={"type": "run", "queue": "run"}))["id"]
    claim = {"worker_id": "w", "boot_id": "b", "queues": ["run"], "claim_id": "c"}
    taken = await host.ask("POST", "/v1/leases:claim", token=acme, json=claim)
    lease = {"id": other, "fence": 1, "lease_token": taken["lease_tokens"][other]}
    page = await host.ask("GET", "/v1/jobs?limit=1", token=acme)
    before = await seen(host, acme)

    async def beta_asks(path: str, body: object, status: int = 200) -> Any:  # noqa: ANN401 - JSON
        return await host.ask("POST", path, status, token=beta, json=body)

    for path in ("/v1/jobs:cancel", "/v1/jobs:retry", "/v1/jobs:run-now"):
        assert [one["status"] for one in (await beta_asks(path, {"ids": [ids["jobs"], other]}))["items"]] == [404] * 2
    for path in ("/v1/dead-letters:retry", "/v1/dead-letters:discard"):
        reply = await beta_asks(path, {"ids": [other]})
        assert (reply["done"], reply["refused"][0]["status"]) == (0, 404)
    counted = await beta_asks("/v1/operations", {"action": "cancel", "ids": [other], "dry_run": True})
    assert counted["matched"] == (await beta_asks("/v1/operations", {
        "action": "cancel", "ids": ["0000000000001"], "dry_run": True,
    }))["matched"]  # fmt: skip
    child = {"type": "x", "after": [other]}
    await beta_asks("/v1/jobs", child, 422)
    assert (await beta_asks("/v1/jobs:batch", {"jobs": [child]}))["items"][0]["status"] == 422
    graph = {"name": "g", "nodes": [{"name": "a", "type": "x", "after": [{"job": other}]}]}
    assert (await host.ask("POST", "/v1/workflows", None, token=beta, json=graph)).status_code == 422
    # Everything that the worker of the other namespace knows is of no use here.
    assert (await beta_asks("/v1/leases:claim", claim))["jobs"] == []
    assert (await beta_asks("/v1/leases:renew", {"renewals": [lease]}))["lost"] == [other]
    settled = await beta_asks("/v1/leases:settle", {"reports": [{**lease, "outcome": "succeeded", "result": 1}]})
    assert (settled["settled"], settled["refused"]) == ([], [other])
    assert not (await beta_asks("/v1/leases:step", {**lease, "key": "k", "act": "intend"}))["holds"]
    assert not (await beta_asks("/v1/leases:input", lease))["holds"]
    assert (await beta_asks("/v1/leases:watch", {"worker_id": "w", "wait": 0}))["cancel"] == []
    listed = await host.ask("GET", f"/v1/jobs?ids={other},{ids['jobs']}", token=beta)
    assert listed["items"] == []
    behind = await host.ask("GET", f"/v1/jobs?limit=1&cursor={page['next_cursor']}", token=beta)
    assert (behind["items"], behind["next_cursor"]) == ([], None)
    topics = f"job:{other},jobs:run,dead,schedules,workers,ledger,operations"
    headers = {"Authorization": f"Bearer {beta}"}
    async with host.client.stream("GET", f"/v1/events/stream?topics={topics}", headers=headers) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == ": here"
        await anext(lines)
        await host.ask("POST", f"/v1/jobs/{other}/cancel", 202, token=acme)
        # A change of its own is told; it follows the other's, so that would have come before.
        own = (await beta_asks("/v1/jobs", {"type": "run", "queue": "run"}, 201))["id"]
        assert await anext(lines) == "event: changed"
        assert await anext(lines) == 'data: {"topic":"jobs:run"}'
    assert own != other
    running = await host.ask("GET", f"/v1/jobs/{other}", token=acme)
    assert (running["status"], running["fence"]) == ("running", 1)
    assert {**await seen(host, acme), "/v1/jobs": None} == {**before, "/v1/jobs": None}


class Player:
    """Does random things in one namespace, and checks that no answer has anything of the others."""

    def __init__(self, host: HostedProcess, name: str, token: str, rng: random.Random) -> None:
        self.host, self.name, self.token, self.rng = host, name, token, rng
        self.mark = f"{name}x"
        #: What no answer may have: the marks and ids of the others.
        self.foreign: set[str] = set()
        self.others: list[Player] = []
        self.jobs: list[str] = []
        self.keys: dict[str, str] = {}

    async def ask(self, method: str, path: str, **sent: Any) -> Any:  # noqa: ANN401 - a response
        answer = await self.host.ask(method, path, None, token=self.token, **sent)
        assert answer.status_code < 500, (method, path, answer.text)
        for word in self.foreign:
            assert word not in answer.text, (self.name, method, path, word, answer.text)
        return answer

    def learnt(self, made: str) -> str:
        for other in self.others:
            other.foreign.add(made)
        return made

    async def submit(self) -> None:
        body: dict[str, Any] = {"type": self.mark, "queue": self.rng.choice(["default", self.mark])}
        key = self.rng.choice(["", "k1", "k2", "k3"])
        if key:
            body["idempotency_key"] = key
            body["queue"] = "default"
        answer = await self.ask("POST", "/v1/jobs", json={**body, "payload": self.mark, "tags": ["shared", self.mark]})
        made = answer.json()["id"]
        if key in self.keys:
            assert made == self.keys[key], "a key is of its namespace"
            return
        assert answer.status_code == 201
        assert made not in self.jobs
        self.jobs.append(self.learnt(made))
        if key:
            self.keys[key] = made

    async def claim(self) -> None:
        body = {"worker_id": "w", "boot_id": "b", "max": 3, "queues": ["default", self.mark]}
        answer = (await self.ask("POST", "/v1/leases:claim", json=body)).json()
        for job in answer["jobs"]:
            assert job["id"] in self.jobs
            report = {"id": job["id"], "fence": job["fence"], "lease_token": answer["lease_tokens"][job["id"]]}
            report |= self.rng.choice(
                [
                    {"outcome": "succeeded", "result": self.mark},
                    {"outcome": "failed", "error": {"kind": self.mark, "message": self.mark}},
                ]
            )
            await self.ask("POST", "/v1/leases:settle", json={"reports": [report]})

    async def act(self) -> None:
        pool = [*self.jobs, *(job for other in self.others for job in other.jobs)] or ["0000000000001"]
        job = self.rng.choice(pool)
        path = f"/v1/jobs/{job}/{self.rng.choice(['cancel', 'retry', 'run-now', 'duplicate'])}"
        if job in self.jobs:
            answer = await self.ask("POST", path, json={})
            if path.endswith(("duplicate", "retry")) and answer.status_code == 201 and answer.json()["id"] != job:
                self.jobs.append(self.learnt(answer.json()["id"]))
            return
        answer = await self.host.ask("POST", path, None, token=self.token, json={})
        assert answer.status_code == 404, answer.text

    async def name_things(self) -> None:
        """Use names that the other namespaces use as well."""
        what = self.rng.randrange(6)
        if what == 0:
            body = {"name": "daily", "cron": "@every 1h", "job": {"type": self.mark}}
            await self.ask("POST", "/v1/schedules", json=body)
        elif what == 1:
            verb = self.rng.choice(["pause", "resume"])
            sent = {"json": {"reason": self.mark}} if verb == "pause" else {}
            await self.ask("POST", f"/v1/queues/other/{verb}", **sent)
        elif what == 2:
            await self.ask("POST", "/v1/locks:acquire", json={"name": "lock", "holder": self.mark, "hold": "5s"})
        elif what == 3:
            await self.ask("POST", "/v1/events/paid", json={"payload": self.mark})
        elif what == 4:
            await self.ask("PUT", "/v1/limits/key:customer", json={"max_running": self.rng.randrange(1, 9)})
        else:
            await self.ask("POST", "/v1/tokens", json={"name": "bot", "role": "viewer"})

    async def read(self) -> None:
        path = self.rng.choice(READS)
        if path not in OF_SERVER:
            await self.ask("GET", path)

    async def count(self) -> None:
        listed = (await self.ask("GET", "/v1/jobs", params={"limit": 500, "tag": "shared"})).json()["items"]
        assert {job["id"] for job in listed} <= set(self.jobs)
        assert {job["id"] for job in listed} >= set(self.keys.values())

    async def err(self) -> None:
        await self.ask("POST", "/v1/jobs", json={"type": self.mark, "priority": 99})
        await self.ask("GET", "/v1/jobs/nosuch")
        await self.ask("GET", "/v1/jobs", params={"q": f"type:{self.mark} status:nonsense"})

    async def step(self) -> None:
        verbs = [self.submit, self.submit, self.claim, self.act, self.name_things, self.read, self.count, self.err]
        await self.rng.choice(verbs)()


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_operations_in_one_namespace_never_show_in_another(host: HostedProcess, seed: int) -> None:
    rng = random.Random(seed)
    tokens = {"main": ROOT, "acme": await host.token("acme"), "beta": await host.token("beta")}
    players = [Player(host, name, token, rng) for name, token in tokens.items()]
    for player in players:
        player.others = [other for other in players if other is not player]
        player.foreign = {other.mark for other in player.others}
    # The list of namespaces is the default one's to see.
    for _ in range(300):
        await rng.choice(players).step()
    for player in players:
        await player.count()
        for path in set(READS) - OF_SERVER:
            await player.ask("GET", path)
    assert all(len(player.jobs) > 3 for player in players)
