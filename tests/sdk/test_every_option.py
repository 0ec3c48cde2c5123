"""Every option does what it says: each has an effect that a job without it does not show.

The table has to have all options of `Options`; one that is added there and not here fails. Each is tried in every place
where it can be given, on a file and over HTTP.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.environment import served
from builders import HOUR, SECOND, ManualClock, claim
from rota import Options, Rota
from rota.api import ApiSettings, create_app
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_number
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Lost, Outcome, Succeeded
from rota.core.settlement import JobError
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import JobQuery
from rota.sdk.loader import definition_of
from rota.sdk.options import SINGLE_SUBMISSION
from rota.stores.sqlite import SqliteStore
from rota.wire.submission import Defaults

#: Where an option can be given: in the decorator, for one submission, for one submission by name, and in the decorator
#: of the app that the server of the API runs with, for a submission that says nothing.
PLACES = ("decorator", "using", "by name", "server")
FAILED = Failed(JobError("OSError", "no"))


@dataclass
class Scene:
    """A store, a way to submit to it with one option, and a worker's verbs."""

    clock: ManualClock
    engine: Engine
    app: Rota
    connection: sqlite3.Connection
    #: The app that the server of the API runs with.
    server: Rota
    #: Submits a job with the option, and gives its id.
    submit_now: Callable[[], str]

    async def submit(self) -> JobId:
        return JobId(to_number(await asyncio.to_thread(self.submit_now)))

    async def claim(self, **wanted: Any) -> list[Job]:  # noqa: ANN401 - as a claim has it
        return list(await self.engine.store.claim(claim(**wanted)))

    async def run(self, outcome: Outcome) -> Job:
        """Submit a job, have it claimed and come to an outcome, and give it then."""
        await self.submit()
        (job,) = await self.claim()
        await self.engine.settle([AttemptReport(job.id, job.fence, outcome)])
        (job,) = await self.engine.get([job.id])
        return job

    async def has(self, **query: Any) -> bool:  # noqa: ANN401 - as a query has it
        return bool(await self.engine.find(JobQuery(**query)))


async def _is_claimed_from_mail(scene: Scene) -> bool:
    await scene.submit()
    return [job.queue for job in await scene.claim(queues=("mail",))] == ["mail"]


async def _goes_first(scene: Scene) -> bool:
    await scene.app.tasks["plain"].asubmit()
    job_id = await scene.submit()
    (job,) = await scene.claim(limit=1)
    return job.id == job_id


async def _waits_half_an_hour(scene: Scene) -> bool:
    await scene.submit()
    early = await scene.claim()
    scene.clock.move(HOUR)
    await scene.engine.upkeep.promote(10)
    return not early and len(await scene.claim()) == 1


async def _is_not_begun_too_late(scene: Scene) -> bool:
    await scene.submit()
    scene.clock.move(HOUR)
    return not await scene.claim()


async def _may_run_for_half_a_minute(scene: Scene) -> bool:
    await scene.submit()
    (job,) = await scene.claim()
    return job.timeout == timedelta(seconds=30)


async def _is_tried_once(scene: Scene) -> bool:
    return (await scene.run(FAILED)).state is State.DEAD


async def _is_not_begun_again(scene: Scene) -> bool:
    return (await scene.run(Lost())).state is State.DEAD


async def _is_one_job(scene: Scene) -> bool:
    return await scene.submit() == await scene.submit()


async def _is_one_job_while_it_waits(scene: Scene) -> bool:
    first, second = await scene.submit(), await scene.submit()
    await scene.claim()
    return first == second != await scene.submit()


async def _is_one_job_that_waits(scene: Scene) -> bool:
    same = await scene.submit() == await scene.submit()
    return same and await _waits_half_an_hour(scene)


async def _waits_no_longer_than_half_an_hour(scene: Scene) -> bool:
    await scene.submit()
    early = await scene.claim()
    scene.clock.move(HOUR / 3)
    await scene.submit()
    scene.clock.move(HOUR / 5)
    await scene.engine.upkeep.promote(10)
    return not early and len(await scene.claim()) == 1


async def _waits_for_its_breaker(scene: Scene) -> bool:
    for name, app in (("own", scene.app), ("server", scene.server)):
        # As a process of the app does when it starts.
        await scene.engine.breakers.put_of_app(app.breakers.stored(name), name)
    await scene.engine.breakers.open("stripe", None, "", Actor("ada"))
    await scene.submit()
    return not await scene.claim()


async def _is_found_by_its_tag(scene: Scene) -> bool:
    await scene.submit()
    return await scene.has(tag="vip")


async def _runs_one_at_a_time(scene: Scene) -> bool:
    await scene.submit()
    await scene.submit()
    return len(await scene.claim()) == 1


async def _names_the_customer(scene: Scene) -> bool:
    await scene.submit()
    (job,) = await scene.claim()
    return job.meta.get("customer") == "7"


async def _is_followed_when_it_succeeds(scene: Scene) -> bool:
    await scene.run(Succeeded())
    return await scene.has(types=("follower",))


async def _is_followed_when_it_is_dead(scene: Scene) -> bool:
    await scene.run(Failed(FAILED.error, permanent=True))
    return await scene.has(types=("follower",))


async def _is_there_once_committed(scene: Scene) -> bool:
    try:
        job_id = await scene.submit()
    except InvalidRequest as error:
        return "over HTTP a job cannot join your transaction" in str(error)
    before = await scene.engine.get([job_id])
    scene.connection.commit()
    return not before and len(await scene.engine.get([job_id])) == 1


#: A value for each option, and what is seen of it.
EFFECTS: dict[str, tuple[Callable[[Rota, sqlite3.Connection], object], Callable[[Scene], Awaitable[bool]]]] = {
    "queue": (lambda _, __: "mail", _is_claimed_from_mail),
    "priority": (lambda _, __: 9, _goes_first),
    "delay": (lambda _, __: "30m", _waits_half_an_hour),
    "run_at": (lambda _, __: datetime.now(UTC) + HOUR / 2, _waits_half_an_hour),
    "expires": (lambda _, __: "30m", _is_not_begun_too_late),
    "timeout": (lambda _, __: "30s", _may_run_for_half_a_minute),
    "retry": (lambda _, __: 1, _is_tried_once),
    "delivery": (lambda _, __: "at_most_once", _is_not_begun_again),
    "idempotency_key": (lambda _, __: "k", _is_one_job),
    "unique_for": (lambda _, __: "1h", _is_one_job),
    "unique_by": (lambda _, __: ["customer"], _is_one_job),
    "unique_key": (lambda _, __: "k", _is_one_job),
    "unique_states": (lambda _, __: ["pending"], _is_one_job_while_it_waits),
    "debounce": (lambda _, __: "30m", _is_one_job_that_waits),
    "max_wait": (lambda _, __: "30m", _waits_no_longer_than_half_an_hour),
    "throttle": (lambda _, __: "1h", _is_one_job),
    "breaker": (lambda _, __: "stripe", _waits_for_its_breaker),
    "concurrency_key": (lambda _, __: "account-7", _runs_one_at_a_time),
    "tags": (lambda _, __: ["vip"], _is_found_by_its_tag),
    "meta": (lambda _, __: {"customer": "7"}, _names_the_customer),
    "on_success": (lambda app, _: app.tasks["follower"].call(), _is_followed_when_it_succeeds),
    "on_failure": (lambda app, _: app.tasks["follower"].call(), _is_followed_when_it_is_dead),
    "tx": (lambda _, connection: connection, _is_there_once_committed),
}


#: Options that an option needs beside it.
COMPANIONS: dict[str, dict[str, str]] = {
    "unique_by": {"unique_for": "1h"},
    "unique_key": {"throttle": "1h"},
    "max_wait": {"debounce": "30m"},
}


def _nothing(customer: int = 7) -> None: ...


class Apps:
    """Makes apps with a task that is tried with an option, if there is one, and two plain ones."""

    def __init__(self, option: str | None, connection: sqlite3.Connection) -> None:
        self._option = option
        self._connection = connection

    def app(self, url: str, *, is_api_given: bool) -> Rota:
        app = Rota(url)
        for name in ("plain", "follower"):
            app.task(name=name)(_nothing)
        app.task(name="tried", **(self.options(app) if is_api_given else {}))(_nothing)
        return app

    def options(self, app: Rota) -> Any:  # noqa: ANN401 - any options
        if self._option is None:
            return {}
        return {self._option: EFFECTS[self._option][0](app, self._connection), **COMPANIONS.get(self._option, {})}


@asynccontextmanager
async def scene_of(way: str, place: str, option: str | None, path: Path) -> AsyncIterator[Scene]:
    """Set up a store, its API, and what submits with an option, or without one."""
    clock = ManualClock(datetime.now(UTC) + 20 * SECOND)
    async with AsyncExitStack() as opened:
        store = await SqliteStore.open(str(path), clock=clock)
        opened.push_async_callback(store.close)
        broker = InStoreBroker(store)
        opened.push_async_callback(broker.close)
        engine = Engine(store, broker, clock=clock)
        connection = opened.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
        apps = Apps(option, connection)
        server = apps.app(str(path), is_api_given=place == "server")
        opened.callback(server.close)
        api = create_app(engine, settings=ApiSettings(defaults=Defaults(tasks=definition_of(server).defaults)))
        opened.push_async_callback(api.aclose)
        async with served(api) as url:
            app = apps.app(url if way == "http" else str(path), is_api_given=place == "decorator")
            ways: dict[str, Callable[[], str]] = {
                "decorator": lambda: app.tasks["tried"].submit().id,
                "using": lambda: app.tasks["tried"].using(**apps.options(app)).submit().id,
                "by name": lambda: app.submit_by_name("tried", {"args": []}, **apps.options(app)).id,
                "server": lambda: str(httpx.post(f"{url}/v1/jobs", json={"type": "tried", "payload": {}}).json()["id"]),
            }
            yield Scene(clock, engine, app, connection, server, ways[place])
            await asyncio.to_thread(app.close)


def test_every_option_is_in_the_table() -> None:
    assert EFFECTS.keys() == Options.__annotations__.keys()


@pytest.mark.parametrize("option", EFFECTS)
@pytest.mark.parametrize(
    ("way", "place"),
    [(way, place) for way in ("sqlite", "http") for place in PLACES if (way, place) != ("sqlite", "server")],
)
async def test_every_option_has_an_effect_wherever_it_is_given(
    way: str, place: str, option: str, tmp_path: Path
) -> None:
    effect = EFFECTS[option][1]
    if place in {"decorator", "server"} and option in SINGLE_SUBMISSION:
        with pytest.raises(InvalidRequest, match=f"{option}: it belongs to one submission"):
            async with scene_of(way, place, option, tmp_path / "refused.db"):
                pass
        return
    async with scene_of(way, place, None, tmp_path / "without.db") as scene:
        assert not await effect(scene)
    async with scene_of(way, place, option, tmp_path / "with.db") as scene:
        assert await effect(scene)


@pytest.mark.parametrize("options", [{}, {"delay": 0}, {"delay": None}], ids=str)
async def test_a_delay_of_the_servers_app_does_not_hold_for_a_python_client(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """As on a store, the app that submits says when: nothing in it could take the delay away."""
    async with scene_of("http", "server", "delay", tmp_path / "rota.db") as scene:
        task = scene.app.tasks["tried"]
        by_name = await asyncio.to_thread(lambda: scene.app.submit_by_name("tried", {"args": []}, **options).id)
        called = await asyncio.to_thread(lambda: task.using(**options).submit().id)
        jobs = await scene.engine.get([JobId(to_number(one)) for one in (by_name, called)])
        assert [job.state for job in jobs] == [State.PENDING, State.PENDING]
        (other,) = await scene.engine.get([await scene.submit()])
        assert other.state is State.SCHEDULED
