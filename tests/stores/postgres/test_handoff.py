"""Hand-over: a submitter leases its new job to an open claim, in the same commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

import rota.stores.handoff
from builders import ADA, BEN, MINUTE, claim, key, means, new_job, new_jobs
from rota.brokers.in_store import InStoreBroker
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lease import AHEAD, NO_WAIT, Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.limit import Limit
from rota.core.outcome import Succeeded
from rota.core.queue import Queue
from rota.core.submission import Delivery, NewJob
from rota.engine import Engine
from rota.ports.store import Receipt, Retention
from rota.ports.wakeup import EVERY_QUEUE, LEASED_AT_ONCE, ClaimTopic
from rota.stores.handoff import DELIVERY_MARGIN, LONGEST_WAIT, SHORTEST_WAIT, HandedOffJob, job_columns
from rota.stores.postgres import PostgresStore, handoff, notify
from rota.stores.postgres import claim as claims
from rota.stores.postgres.handoff import LONGEST_ANSWER
from stores.handoff_cases import each_job_comes_once
from stores.postgres.listeners import SHORT, all_listening, until_notified

HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
AWAITED = "SELECT count(*) FROM pg_locks WHERE NOT granted"
STAYS = timedelta(seconds=5)
QUESTION = claim(limit=2, types=("mail", "bill"), claim_id="question", is_new=True, waits=STAYS)
#: As a stopping worker repeats its claim, and as its lease keeper does when it has died.
LAST_WORD = replace(QUESTION, limit=1, is_new=False, waits=timedelta(0))
SPOKEN_FOR = claim(limit=1, queues=(), types=(), claim_id="question")


@pytest.fixture
async def waiting(other: PostgresStore) -> PostgresStore:
    """A store in which a question stays."""
    await all_listening(other)
    await leave(other, QUESTION)
    return other


async def leave(store: PostgresStore, question: Claim) -> None:
    """Claim without a job."""
    assert not await store.claim(question)


async def bring(store: PostgresStore, job: NewJob) -> NewJob:
    """Submit a single job, so long after the last notification that it attaches one."""
    store._notifier._sent_at = float("-inf")
    (answer,) = await store.insert([job])
    assert (answer.receipt, answer.job_id) == (Receipt.CREATED, job.id)
    return job


async def bring_aloud(store: PostgresStore, other: PostgresStore, job: NewJob) -> NewJob:
    """Submit a single job, and wait until another store was notified of it."""
    count = other._listener._count
    await bring(store, job)
    await until_notified(other, count)
    return job


def deafen(store: PostgresStore) -> None:
    """Have a store miss the answers that come for it."""
    store._listener._open_claims = handoff.OpenClaims()


async def only(store: PostgresStore, job: NewJob) -> Job:
    (found,) = await store.get([job.id])
    return found


async def test_a_single_job_is_leased_to_an_open_claim_as_it_is_stored(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload='{"to": "ann", "text": "100 %, \\"quoted\\" 🙂"}'))
    stored = await only(store, job)
    assert (stored.state, stored.worker, stored.boot) == (State.RUNNING, ADA.name, ADA.boot)
    assert (stored.fence, stored.attempts, stored.started_at) == (1, 1, stored.created_at)
    assert stored.lease_until == stored.created_at + QUESTION.lease
    assert await waiting.claim(QUESTION) == [stored]


async def test_with_hand_over_switched_off_a_waiting_claim_is_not_kept(dsn: str) -> None:
    store = await PostgresStore.open(dsn, hand_over=False)
    broker = InStoreBroker(store)
    engine = Engine(store, broker)
    waiting = asyncio.ensure_future(engine.claim(replace(QUESTION, waits=NO_WAIT), wait=MINUTE))
    await store.watch(SHORT)
    job = new_job()
    await engine.submit([job])
    (given,) = await waiting
    assert given.id == job.id
    assert not store._open_claims._by_boot
    await broker.close()
    await store.close()


async def test_the_worker_is_notified_and_gets_the_job_without_a_statement(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = asyncio.ensure_future(waiting.watch(MINUTE))
    await asyncio.sleep(0)
    job = await bring(store, new_job())
    assert ClaimTopic("question") in await answer
    monkeypatch.setattr(waiting._claims, "_database", None)
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]


@pytest.mark.parametrize("text", ["x" * 20_000, "\\u00e4" * 1_200, "ä" * 6_000], ids=["long", "escaped", "wide"])
async def test_a_job_too_long_for_a_notification_is_looked_up(
    store: PostgresStore, waiting: PostgresStore, text: str
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload=f'"{text}"'))
    assert await waiting.claim(QUESTION) == [await only(store, job)]


@pytest.mark.parametrize(
    "fields",
    [
        {"job_type": "other"},
        {"queue": "elsewhere"},
        {"delivery": Delivery.AT_MOST_ONCE},
        {"max_attempts": 1},
        {"idempotency": key("once")},
        {"tags": ("urgent",)},
        {"timeout": MINUTE},
    ],
    ids=str,
)
async def test_jobs_of_other_lanes_and_at_most_once_jobs_are_not_handed_over(
    store: PostgresStore, waiting: PostgresStore, fields: dict[str, object]
) -> None:
    job = await bring(store, new_job(**fields))  # type: ignore[arg-type]
    assert (await only(waiting, job)).state is State.PENDING


@pytest.mark.parametrize("name", ["queue:default", "task:mail"])
async def test_a_lane_with_a_limit_is_left_to_claims(store: PostgresStore, waiting: PostgresStore, name: str) -> None:
    await waiting.put_limits([Limit(name, 5)])
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_bounded_queue_is_left_to_claims(store: PostgresStore, waiting: PostgresStore) -> None:
    assert await waiting.put_queue(Queue("default", max_depth=10))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_jobs_of_a_paused_queue_are_not_handed_over(store: PostgresStore, waiting: PostgresStore) -> None:
    now = await store.time()
    assert await waiting.put_queue(Queue("default", paused_at=now, pause_reason="a rest"))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


@pytest.mark.parametrize(
    "fields",
    [{"limit": 1}, {"claim_id": None}, {"waits": SHORTEST_WAIT - SHORT}, {"waits": timedelta(0)}],
    ids=str,
)
async def test_a_claim_with_limit_one_or_without_waiting_is_not_left_open(
    store: PostgresStore, other: PostgresStore, fields: dict[str, object]
) -> None:
    await all_listening(other)
    await leave(other, replace(QUESTION, **fields))  # type: ignore[arg-type]
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_without_a_listener_no_claim_is_left_open(store: PostgresStore, other: PostgresStore) -> None:
    await leave(other, QUESTION)
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_claim_of_a_single_lane_is_not_left_open(store: PostgresStore, other: PostgresStore) -> None:
    await all_listening(other)
    await leave(other, replace(QUESTION, types=("mail",)))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_lanes_whose_names_concatenate_to_the_same_text_are_different(
    store: PostgresStore, other: PostgresStore
) -> None:
    await all_listening(other)
    await leave(other, replace(QUESTION, queues=("a", "ab"), types=("bc", "d")))
    assert (await only(store, await bring(store, new_job("c", queue="ab")))).state is State.PENDING
    assert (await only(store, await bring(store, new_job("bc", queue="a")))).state is State.RUNNING


async def test_a_claim_of_a_dead_process_gets_no_job(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """As a kill does: its connections are gone, and its question is still there."""
    assert waiting._listener._task is not None
    waiting._listener._task.cancel()
    await asyncio.wait([waiting._listener._task])
    async with asyncio.timeout(20):
        while await stranger.fetchval(HELD):  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.01)
    assert await stranger.fetchval("SELECT count(*) FROM rota_open_claim") == 1
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


@pytest.mark.usefixtures("waiting")
async def test_two_concurrent_submitters_both_see_that_a_process_has_died(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """Submitters that try the advisory lock must not take it from each other."""
    await stranger.execute("UPDATE rota_open_claim SET sign = 4711")
    async with stranger.transaction():
        assert await stranger.fetchval("SELECT pg_try_advisory_xact_lock_shared(4711)")
        assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_an_open_claim_ends_a_little_before_its_worker_stops_waiting(
    waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    ((since, until),) = await stranger.fetch("SELECT since, until FROM rota_open_claim")
    assert timedelta(microseconds=until - since) == STAYS - DELIVERY_MARGIN
    await leave(waiting, replace(QUESTION, claim_id="long", waits=MINUTE))
    ((since, until),) = await stranger.fetch("SELECT since, until FROM rota_open_claim")
    assert timedelta(microseconds=until - since) == LONGEST_WAIT - DELIVERY_MARGIN


@pytest.mark.parametrize("column", ["until", "since"])
async def test_an_open_claim_past_its_time_gets_no_job(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection, column: str
) -> None:
    await stranger.execute(f"UPDATE rota_open_claim SET {column} = {column} - 5000000")  # noqa: S608 - our own names
    assert (await only(waiting, await bring(store, new_job()))).state is State.PENDING


async def test_an_open_claim_of_a_future_time_gets_no_job(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """The server's clock was set back: the age of the claim is not known."""
    await stranger.execute("UPDATE rota_open_claim SET since = since + 3600000000, until = until + 3600000000")
    assert (await only(waiting, await bring(store, new_job()))).state is State.PENDING


async def test_an_open_claim_is_answered_once(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    first = await bring_aloud(store, waiting, new_job())
    assert await stranger.fetchval("SELECT count(*) FROM rota_open_claim") == 0
    second = await bring_aloud(store, waiting, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [first.id]
    assert (await only(store, second)).state is State.PENDING


async def test_a_repeated_claim_whose_job_has_ended_gets_nothing(store: PostgresStore, waiting: PostgresStore) -> None:
    await bring_aloud(store, waiting, new_job())
    (given,) = await waiting.claim(QUESTION)
    again = replace(QUESTION, is_new=False)
    assert await waiting.claim(again) == [given]
    assert await store.settle([decide(given, Succeeded("null"), means())]) == [given.id]
    assert not await waiting.claim(again)


async def test_an_open_claim_that_was_answered_by_a_claim_gets_no_job(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    jobs = new_jobs(2)
    await store.insert(jobs)
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id for job in jobs]
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_submitter_that_conflicts_with_the_claim_itself_stores_a_pending_job(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """Both write under its name. The second waits for the first, and then fails."""
    async with stranger.transaction():
        await stranger.execute("INSERT INTO rota_claim (claim_id, at, leases) VALUES ('question', 0, '[]')")
        bringing = asyncio.ensure_future(bring(store, new_job()))
        async with asyncio.timeout(20):
            while not await stranger.fetchval(AWAITED):  # noqa: ASYNC110 - only the server knows
                await asyncio.sleep(0.01)
    assert (await only(waiting, await bringing)).state is State.PENDING


async def test_a_claim_that_conflicts_with_a_hand_over_returns_that_job(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    """It was rung for by something else, and the answer is still under way."""
    deafen(waiting)
    brought = await bring(store, new_job())
    pending = new_jobs(2)
    await store.insert(pending)
    assert [given.id for given in await waiting.claim(QUESTION)] == [brought.id]
    assert [job.state for job in await store.get([job.id for job in pending])] == [State.PENDING] * 2


async def test_a_job_handed_over_while_the_listener_was_disconnected_is_found(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    kept = waiting._open_claims._by_claim["question"]
    deafen(waiting)
    brought = await bring(store, new_job())
    assert not await waiting.claim(QUESTION)
    kept.address = None
    assert [given.id for given in await waiting.claim(QUESTION)] == [brought.id]


async def test_an_unheard_job_is_returned_by_the_next_empty_claim(store: PostgresStore, waiting: PostgresStore) -> None:
    """The listener may be disconnected without knowing it, or the answer came too late: the next claim gets it."""
    deafen(waiting)
    brought = await bring(store, new_job())
    assert await waiting.claim(replace(QUESTION, claim_id="next")) == [await only(store, brought)]
    await leave(waiting, replace(QUESTION, claim_id="the one after"))


async def test_an_unheard_job_is_returned_along_with_claimed_jobs(store: PostgresStore, waiting: PostgresStore) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    pending = new_jobs(2)
    await store.insert(pending)
    given = await waiting.claim(replace(QUESTION, claim_id="next"))
    assert [job.id for job in given] == [*(job.id for job in pending), brought.id]


async def asked_while_answering(
    store: PostgresStore, asking: PostgresStore, question: Claim, stranger: asyncpg.Connection
) -> tuple[NewJob, Sequence[Job]]:
    """Claim while a submitter answers the open claim, whose commit stalls until we wait for it."""
    await stranger.execute("CREATE TABLE rota_held (id integer); INSERT INTO rota_held VALUES (1)")
    await stranger.execute(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM 1 FROM rota_held FOR UPDATE; RETURN NULL; END $$;"
        " CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON rota_claim DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION stall()"
    )
    try:
        async with stranger.transaction():
            await stranger.execute("SELECT 1 FROM rota_held FOR UPDATE")
            bringing = asyncio.ensure_future(bring(store, new_job()))
            async with asyncio.timeout(20):
                while await stranger.fetchval(AWAITED) < 1:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
                asked = asyncio.ensure_future(asking.claim(question))
                while await stranger.fetchval(AWAITED) < 2:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
        return await bringing, await asked
    finally:
        await stranger.execute("DROP FUNCTION stall() CASCADE; DROP TABLE rota_held")


async def test_the_next_claim_waits_for_a_hand_over_in_progress(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """A disk or a standby may stall for longer than a claim stays."""
    job, given = await asked_while_answering(store, waiting, replace(QUESTION, claim_id="next"), stranger)
    assert [one.id for one in given] == [job.id]


@pytest.mark.parametrize("ahead", [timedelta(0), AHEAD], ids=["not ahead", "ahead"])
async def test_the_last_claim_of_a_worker_waits_for_a_hand_over_in_progress(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection, ahead: timedelta
) -> None:
    """Nobody would ask once more."""
    job, given = await asked_while_answering(store, waiting, replace(LAST_WORD, ahead=ahead), stranger)
    assert [one.id for one in given] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_the_lease_keeper_of_a_dead_worker_waits_for_a_hand_over_in_progress(
    store: PostgresStore, stranger: asyncpg.Connection, dsn: str
) -> None:
    companion = await PostgresStore.open(dsn)
    try:
        job, given = await asked_while_answering(store, companion, SPOKEN_FOR, stranger)
    finally:
        await companion.close()
    assert [one.id for one in given] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_the_lease_keeper_of_a_dead_worker_deletes_its_open_claim(store: PostgresStore, dsn: str) -> None:
    companion = await PostgresStore.open(dsn)
    try:
        await leave(companion, SPOKEN_FOR)
    finally:
        await companion.close()
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_the_last_claim_of_a_worker_that_looks_ahead_deletes_its_open_claim(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    await leave(waiting, replace(LAST_WORD, ahead=AHEAD))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_worker_without_open_claims_deletes_none(
    waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker over HTTP has names for its claims, and each of them would cost a statement more."""
    monkeypatch.setattr(claims, "delete_open_claim", None)
    await leave(waiting, claim(BEN, limit=2, types=("mail", "bill"), claim_id="over http"))


async def test_a_job_returned_late_has_its_whole_lease(store: PostgresStore, waiting: PostgresStore) -> None:
    """Its worker counts from its new claim."""
    deafen(waiting)
    brought = await bring(store, new_job())
    asked_at = await store.time()
    (given,) = await waiting.claim(replace(QUESTION, claim_id="next", lease=MINUTE))
    assert given.lease_until is not None
    assert given.lease_until >= asked_at + MINUTE
    assert given == await only(store, brought)


async def test_a_job_that_has_ended_meanwhile_is_not_returned_late(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    recall = waiting._claims._leases_of

    async def slowly(claim_id: str) -> Sequence[Job]:
        jobs = await recall(claim_id)
        for job in jobs:
            assert await store.settle([decide(job, Succeeded("null"), means())]) == [job.id]
        return jobs

    monkeypatch.setattr(waiting._claims, "_leases_of", slowly)
    assert not await waiting.claim(replace(QUESTION, claim_id="next"))
    assert (await only(store, brought)).state is State.COMPLETED


async def test_an_answer_to_a_cancelled_claim_is_returned_by_the_next(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    job = await bring_aloud(store, waiting, new_job())
    assert not waiting.leased_meanwhile(replace(QUESTION, claim_id="next"))
    later = await store.time() + timedelta(seconds=9)
    (given,) = await waiting.claim(replace(QUESTION, claim_id="next"), now=later)
    # Looked up, and with a lease that begins anew: the worker counts it from when it asked.
    assert (given.id, given.lease_until) == (job.id, later + QUESTION.lease)


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize("step", ["_leases_of", "_late"])
async def test_the_leases_of_a_former_claim_are_kept_if_the_next_one_is_cancelled(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch, step: str, *, heard: bool
) -> None:
    """The job was returned to no worker, and waited until its lease lapsed."""
    if not heard:
        deafen(waiting)
    job = await bring_aloud(store, waiting, new_job())
    following = replace(QUESTION, claim_id="next")

    async def never(*_: object) -> None:
        await asyncio.sleep(60)

    with monkeypatch.context() as patched:
        patched.setattr(waiting._claims, step, never)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await waiting.claim(following)
    given = await waiting.claim(replace(following, waits=timedelta(0), limit=1, is_new=False))
    assert [one.id for one in given] == [job.id]
    assert not await waiting.claim(replace(QUESTION, claim_id="one more"))


async def test_a_claim_that_looks_ahead_leaves_the_open_claim(store: PostgresStore, waiting: PostgresStore) -> None:
    await leave(waiting, replace(QUESTION, waits=timedelta(0), ahead=AHEAD))
    assert (await only(store, await bring(store, new_job()))).state is State.RUNNING


async def test_a_busy_worker_costs_no_lookup_of_former_claims(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_listening(other)
    recalled: list[str] = []
    monkeypatch.setattr(other._claims, "_leases_of", recalled.append)
    for name in ("first", "second", "third"):
        await store.insert(new_jobs(2))
        assert len(await other.claim(replace(QUESTION, claim_id=name))) == 2
    assert not recalled


async def test_a_worker_that_stops_gets_the_job_of_the_last_moment(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    assert [given.id for given in await waiting.claim(LAST_WORD)] == [brought.id]


async def test_a_worker_that_stops_deletes_its_open_claim(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await leave(waiting, LAST_WORD)
    assert await stranger.fetchval("SELECT count(*) FROM rota_open_claim") == 0
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_the_next_open_claim_of_a_worker_replaces_its_last(
    waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await leave(waiting, replace(QUESTION, claim_id="next"))
    await leave(waiting, replace(QUESTION, claim_id="other", worker=BEN))
    names = await stranger.fetch("SELECT claim_id FROM rota_open_claim ORDER BY since")
    assert [name for (name,) in names] == ["next", "other"]


async def test_the_claim_that_has_waited_longest_is_first(store: PostgresStore, waiting: PostgresStore) -> None:
    others = [replace(QUESTION, claim_id=name, worker=WorkerId(name, name)) for name in ("b", "a", "c")]
    for question in others:
        await leave(waiting, question)
    workers = [(await only(store, await bring(store, new_job()))).worker for _ in range(5)]
    assert workers == ["ada", "b", "a", "c", None]


async def test_a_hand_over_within_a_process_needs_no_notification(waiting: PostgresStore) -> None:
    deafen(waiting)
    job = await bring(waiting, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_a_watcher_of_every_job_is_notified_of_a_hand_over(store: PostgresStore, dsn: str) -> None:
    watcher = await PostgresStore.open(dsn)
    try:
        await all_listening(watcher)
        unasked = watcher._listener._wakes_since_claim
        await bring_aloud(store, watcher, new_job())
        assert watcher._listener._recent[-1] == {LEASED_AT_ONCE}
        # It is nothing to ask for.
        assert watcher._listener._wakes_since_claim == unasked
    finally:
        await watcher.close()


async def test_other_workers_are_not_woken_by_a_hand_over(
    store: PostgresStore, waiting: PostgresStore, dsn: str
) -> None:
    elsewhere = await PostgresStore.open(dsn)
    try:
        await leave(elsewhere, replace(QUESTION, worker=BEN, claim_id="elsewhere", types=("bill",)))
        while await elsewhere.watch(SHORT) or elsewhere._open_claims.address is None:
            pass
        count = elsewhere._listener._count
        await bring_aloud(store, waiting, new_job())
        # The next notification comes after it.
        await store.insert(new_jobs(2))
        await until_notified(elsewhere, count)
        assert elsewhere._listener._count == count + 1
    finally:
        await elsewhere.close()


async def test_the_payload_is_sent_only_to_the_process_that_gets_the_job(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    heard: list[str] = []
    for channel in (notify.CHANNEL, notify.WORK_CHANNEL, notify.HANDED_OVER_CHANNEL):
        await stranger.add_listener(channel, lambda *words: heard.append(str(words[-1])))
    await bring_aloud(store, waiting, new_job(payload='"secret"'))
    await stranger.fetchval("SELECT 1")
    assert heard == [""]


@pytest.mark.parametrize("text", ["", "[]", '["question"]', '["question", "now", null]', "null"])
async def test_an_unreadable_answer_wakes_all_watchers(
    waiting: PostgresStore, stranger: asyncpg.Connection, text: str
) -> None:
    assert waiting._open_claims.address is not None
    count = waiting._listener._count
    await stranger.execute("SELECT pg_notify($1, $2)", waiting._open_claims.address.channel, text)
    await until_notified(waiting, count)
    assert EVERY_QUEUE in waiting._listener._recent[-1]
    assert not await waiting.claim(QUESTION)


@pytest.mark.usefixtures("waiting")
async def test_open_claims_of_dead_workers_are_deleted(store: PostgresStore, stranger: asyncpg.Connection) -> None:
    await stranger.execute("UPDATE rota_open_claim SET since = since - 5000000")
    # So that there is something to clear away.
    await stranger.execute("INSERT INTO rota_claim (claim_id, at, leases) VALUES ('old', 0, '[]')")
    await store.prune(Retention(), 100)
    assert await stranger.fetchval("SELECT count(*) FROM rota_open_claim") == 0


def test_the_number_of_remembered_workers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota.stores.handoff, "MOST", 3)
    kept = handoff.OpenClaims()
    kept.address = handoff.new_address()
    for number in range(10):
        kept.terms(replace(QUESTION, claim_id=f"q{number}", worker=WorkerId("w", f"b{number}")))
    assert len(kept._by_boot) == len(kept._by_claim) == 3


async def test_a_job_that_was_looked_up_is_not_returned_again_by_its_notification(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    """The claim met its own answer, which it had not heard of yet, as it leased others."""
    deafen(waiting)
    job = await bring_aloud(store, waiting, new_job())
    await store.insert(new_jobs(2))
    assert [given.id for given in await waiting.claim(replace(QUESTION, is_new=True))] == [job.id]
    late = HandedOffJob("question", 0, job_columns(job, LONGEST_ANSWER))
    assert not waiting._open_claims.deliver(late)
    given = await waiting.claim(replace(QUESTION, claim_id="next question", limit=9))
    assert job.id not in [one.id for one in given]
    assert len(given) == 2


async def test_every_job_goes_to_one_worker_whether_claimed_or_handed_over(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await each_job_comes_once(dsn, monkeypatch)


def test_two_workers_with_the_same_claim_id_are_kept_apart() -> None:
    kept = handoff.OpenClaims()
    kept.address = handoff.new_address()
    for boot in ("b1", "b2", "b1", "b2"):
        for name in ("same", "other"):
            kept.terms(replace(QUESTION, claim_id=name, worker=WorkerId("w", boot)))
    assert kept.terms(replace(QUESTION, waits=timedelta(0), worker=WorkerId("w", "b1"))).former == "other"
