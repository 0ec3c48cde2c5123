from __future__ import annotations

from dataclasses import replace

from builders import BASE, DAY, HOUR, claim, entry, fresh_id, new_job
from rota.core.lifecycle import Event, State
from rota.core.submission import NewJob
from rota.core.webhook import QUEUE, TYPE, Webhook
from rota.ports.store import Store

KEY, OLD_KEY = "whsec_AA==", "whsec_BB=="
FULL = Webhook(
    id="wh_1",
    name="ops",
    url="https://example.com/hook",
    events=("job.dead", "queue.paused"),
    secret=KEY,
    created_at=BASE,
    queues=("mail",),
    old_secret=OLD_KEY,
    old_until=BASE + DAY,
    disabled_at=BASE + HOUR,
    disabled_reason="gone",
    removed_at=BASE + DAY,
)
PLAIN = Webhook(id="wh_2", name="all", url="http://x", events=("job.completed",), secret=KEY, created_at=BASE)


async def test_webhooks_are_kept_as_they_were_given(store: Store) -> None:
    assert await store.put_webhook(PLAIN)
    assert await store.put_webhook(FULL)
    assert list(await store.webhooks()) == [replace(FULL, version=1), replace(PLAIN, version=1)]


async def test_of_two_changes_of_a_webhook_the_first_counts(store: Store) -> None:
    assert await store.put_webhook(PLAIN, entry=entry("create"))
    assert not await store.put_webhook(replace(PLAIN, name="again"))
    (known,) = await store.webhooks()
    assert await store.put_webhook(replace(known, name="first"), entry=entry("change"))
    assert not await store.put_webhook(replace(known, name="second"), entry=entry("lost"))
    assert [one.name for one in await store.webhooks()] == ["first"]
    assert [one.action for one in await store.ledger()] == ["change", "create"]


async def test_a_settlement_makes_its_events_with_it_or_not_at_all(store: Store) -> None:
    await store.insert([new_job(), new_job()])
    jobs = await store.claim(claim())
    first, second, third = NewJob(fresh_id(), TYPE, "1", QUEUE), NewJob(fresh_id(), TYPE, "2", QUEUE), fresh_id()
    ended = replace(jobs[0].settled(Event.SUCCEED, result="1"), events=(first, second))
    stale = replace(jobs[1].settled(Event.SUCCEED), fence=9, events=(NewJob(third, TYPE, "3", QUEUE),))
    assert list(await store.settle([ended, stale])) == [jobs[0].id]
    made = {job.id: job.state for job in await store.get([first.id, second.id, third])}
    assert made == {first.id: State.PENDING, second.id: State.PENDING}
