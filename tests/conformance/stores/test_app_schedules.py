"""Schedules from code are paused when no process defines them any more, on every store; those of operators stay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from builders import ManualClock
from rota.brokers.in_store import InStoreBroker
from rota.core.schedule import CatchUp, Draft, Schedule
from rota.core.submission import Template
from rota.engine import Engine
from rota.engine.app_schedules import BEAT_SECONDS, LIVING, AppSchedules
from rota.ports.client import Actor
from rota.ports.store import Store

OLGA = Actor("olga")
BEAT = timedelta(seconds=BEAT_SECONDS)


def draft(name: str, rule: str = "@daily", policy: CatchUp = CatchUp.LATEST) -> Draft:
    return Draft(name=name, rule=rule, template=Template(name), catch_up=policy)


class Shop:
    """Processes of apps on one store."""

    def __init__(self, engine: Engine, store: Store, clock: ManualClock) -> None:
        self.engine = engine
        self.store = store
        self.clock = clock
        self._boots = 0

    async def start(
        self, *names: str, app: str = "shop", rule: str = "@daily", policy: CatchUp = CatchUp.LATEST
    ) -> AppSchedules:
        self._boots += 1
        drafts = [draft(name, rule, policy) for name in names]
        process = AppSchedules(self.store, self.engine.schedules, app, f"boot-{self._boots}", drafts)
        await process.put()
        return process

    async def pass_time(self, *processes: AppSchedules, beats: int = 6) -> None:
        for _ in range(beats):
            for process in processes:
                await process.look()
            self.clock.move(BEAT)

    async def stop(self, process: AppSchedules) -> None:
        await self.store.leave([process._member.boot])

    async def active(self) -> list[str]:
        return [one.name for one in await self.engine.schedules.all() if one.paused_at is None]

    async def one(self, name: str) -> Schedule:
        return await self.engine.schedules.named(name)


@pytest.fixture
async def shop(store: Store, clock: ManualClock) -> AsyncIterator[Shop]:
    broker = InStoreBroker(store)
    yield Shop(Engine(store, broker, clock=clock, steady=clock.steady), store, clock)
    await broker.close()


async def test_a_schedule_that_the_code_no_longer_has_is_paused_and_recorded(shop: Shop) -> None:
    old = await shop.start("a", "b")
    await shop.pass_time(old)
    await shop.stop(old)
    new = await shop.start("a")
    await shop.pass_time(new, beats=2)
    assert await shop.active() == ["a"]
    assert (await shop.one("b")).pause_reason == "no running process of app 'shop' defines it"
    newest = (await shop.store.ledger())[0]
    assert (newest.actor, newest.action, newest.target) == ("app shop", "schedules.pause", "b")


async def test_it_goes_on_when_the_code_has_it_again(shop: Shop) -> None:
    first = await shop.start("a")
    await shop.stop(first)
    second = await shop.start()
    await shop.pass_time(second)
    assert await shop.active() == []
    await shop.stop(second)
    await shop.start("a")
    assert await shop.active() == ["a"]


@pytest.mark.parametrize(
    ("policy", "fates"), [(CatchUp.LATEST, ["fired", "missed", "missed"]), (CatchUp.ALL, ["fired", "fired", "fired"])]
)
async def test_what_it_owed_while_the_code_did_not_have_it_is_caught_up_or_recorded(
    shop: Shop, policy: CatchUp, fates: list[str]
) -> None:
    """The fire times in between had gone without a trace."""
    first = await shop.start("a", policy=policy)
    before = await shop.one("a")
    await shop.stop(first)
    second = await shop.start()
    await shop.pass_time(second)
    assert (await shop.one("a")).paused_at is not None
    shop.clock.step(timedelta(days=3))
    assert await shop.engine.schedules.fire(10) == 0
    await shop.stop(second)
    await shop.start("a", policy=policy)
    assert (await shop.one("a")).next_fire_at == before.next_fire_at
    assert await shop.engine.schedules.fire(10) == 1
    assert [one.fate for one in await shop.engine.schedules.occurrences(before.id)] == fates


async def test_while_an_old_process_still_runs_what_it_defines_goes_on(shop: Shop) -> None:
    old = await shop.start("a", "removed")
    new = await shop.start("a", "added")
    await shop.pass_time(old, new)
    assert await shop.active() == ["a", "added", "removed"]
    # Old code that is started once more, in the middle of it, changes nothing.
    await shop.stop(old)
    old = await shop.start("a", "removed")
    await shop.pass_time(new, old)
    assert await shop.active() == ["a", "added", "removed"]
    await shop.stop(old)
    await shop.pass_time(new)
    assert await shop.active() == ["a", "added"]


async def test_a_process_that_died_without_a_word_counts_for_a_while(shop: Shop) -> None:
    await shop.start("a", "b")
    new = await shop.start("a")
    await shop.pass_time(new, beats=2)
    assert await shop.active() == ["a", "b"]
    await shop.pass_time(new, beats=int(LIVING / BEAT) + 2)
    assert await shop.active() == ["a"]


async def test_an_app_that_is_down_keeps_its_schedules(shop: Shop) -> None:
    first = await shop.start("a", app="shop")
    await shop.stop(first)
    other = await shop.start("b", app="office")
    await shop.pass_time(other, beats=20)
    assert await shop.active() == ["a", "b"]


async def test_a_schedule_made_by_hand_belongs_to_no_app(shop: Shop) -> None:
    made = await shop.engine.schedules.create(draft("by-hand"), OLGA)
    assert made.app is None
    process = await shop.start("a")
    await shop.pass_time(process, beats=20)
    assert await shop.active() == ["a", "by-hand"]
    assert (await shop.one("a")).app == "shop"


async def test_code_leaves_a_schedule_of_the_same_name_that_was_made_by_hand_alone(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Code had taken it over: its rule and its payload were gone."""
    made = await shop.engine.schedules.create(draft("report", "@hourly"), OLGA)
    process = await shop.start("report", "other")
    await shop.pass_time(process)
    assert await shop.one("report") == made
    assert (await shop.one("other")).app == "shop"
    assert "schedule 'report' of app 'shop' is not created" in caplog.text
    assert "was created by an operator" in caplog.text


async def test_what_older_releases_put_up_without_an_app_is_adopted_if_the_code_says_the_same(shop: Shop) -> None:
    await shop.engine.schedules.create(draft("report"), OLGA)
    await shop.start("report")
    assert (await shop.one("report")).app == "shop"


async def test_of_two_apps_that_define_the_same_name_the_first_keeps_it(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The second had taken it over, and when its code no longer had it, it was paused under the first."""
    billing = await shop.start("cleanup", app="billing", rule="@hourly")
    crm = await shop.start("cleanup", app="crm", rule="@daily")
    await shop.pass_time(billing, crm)
    await shop.stop(crm)
    crm = await shop.start(app="crm")
    await shop.pass_time(billing, crm)
    kept = await shop.one("cleanup")
    assert (kept.app, kept.rule, kept.paused_at) == ("billing", "@hourly", None)
    assert "schedule 'cleanup' of app 'crm' is not created" in caplog.text
    assert "belongs to app 'billing'" in caplog.text


async def test_a_process_of_another_app_does_not_count_for_the_owner(shop: Shop) -> None:
    billing = await shop.start("cleanup", app="billing")
    await shop.stop(billing)
    billing, crm = await shop.start(app="billing"), await shop.start("cleanup", app="crm")
    await shop.pass_time(billing, crm)
    assert (await shop.one("cleanup")).pause_reason == "no running process of app 'billing' defines it"


async def test_what_an_operator_has_paused_stays_paused(shop: Shop) -> None:
    process = await shop.start("a")
    await shop.engine.schedules.pause((await shop.one("a")).id, "holidays", OLGA)
    await shop.pass_time(process)
    await shop.start("a")
    assert (await shop.one("a")).pause_reason == "holidays"


async def test_a_clock_that_is_set_ahead_ends_no_schedule_for_good(shop: Shop) -> None:
    first, second = await shop.start("a"), await shop.start("b")
    await shop.pass_time(first, second)
    shop.clock.step(timedelta(hours=1))
    await shop.pass_time(first, second)
    assert await shop.active() == ["a", "b"]
