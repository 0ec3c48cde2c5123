"""OpenClaims: who has found nothing leaves its question, and whoever brings a job answers it, in the same commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

import rota.stores.open_claims
from building import ADA, BEN, MINUTE, claim, key, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lane import Queue
from rota.core.lease import AHEAD, Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import Delivery, NewJob
from rota.ports.places import BROUGHT, EVERY_QUEUE, answer_to
from rota.ports.store import Receipt, Retention
from rota.stores.open_claims import HEARING, LONGEST_STAY, SHORTEST_STAY, Answer, told_of
from rota.stores.postgres import PostgresStore, hearing, leasing, open_claims
from rota.stores.postgres.open_claims import LONGEST_ANSWER
from stores.coming import each_job_comes_once
from stores.postgres.ears import SHORT, all_ears, until_heard

HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
AWAITED = "SELECT count(*) FROM pg_locks WHERE NOT granted"
STAYS = timedelta(seconds=5)
QUESTION = claim(limit=2, types=("mail", "bill"), claim_id="question", is_new=True, stays=STAYS)
#: As a worker asks that stops, and as its companion asks when it has died.
LAST_WORD = replace(QUESTION, limit=1, is_new=False, stays=timedelta(0))
SPOKEN_FOR = claim(limit=1, queues=(), types=(), claim_id="question")


@pytest.fixture
async def waiting(other: PostgresStore) -> PostgresStore:
    """A store in which a question stays."""
    await all_ears(other)
    await leave(other, QUESTION)
    return other


async def leave(store: PostgresStore, question: Claim) -> None:
    """Ask where there is nothing."""
    assert not await store.claim(question)


async def bring(store: PostgresStore, job: NewJob) -> NewJob:
    """Submit a job by itself, so long after the last notice that it takes one along."""
    store._bell._sent_at = float("-inf")
    (answer,) = await store.insert([job])
    assert (answer.receipt, answer.job_id) == (Receipt.CREATED, job.id)
    return job


async def bring_aloud(store: PostgresStore, other: PostgresStore, job: NewJob) -> NewJob:
    """Submit a job by itself, and wait until another store has heard of it."""
    count = other._ear._count
    await bring(store, job)
    await until_heard(other, count)
    return job


def deafen(store: PostgresStore) -> None:
    """Have a store miss the answers that come for it."""
    store._ear._open_claims = open_claims.OpenClaims()


async def only(store: PostgresStore, job: NewJob) -> Job:
    (found,) = await store.get([job.id])
    return found


async def test_a_lone_job_is_leased_to_who_waits_for_it_as_it_is_stored(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload='{"to": "ann", "text": "100 %, \\"quoted\\" 🙂"}'))
    stored = await only(store, job)
    assert (stored.state, stored.worker, stored.boot) == (State.RUNNING, ADA.name, ADA.boot)
    assert (stored.fence, stored.attempts, stored.started_at) == (1, 1, stored.created_at)
    assert stored.lease_until == stored.created_at + QUESTION.lease
    assert await waiting.claim(QUESTION) == [stored]


async def test_who_waits_is_told_where_and_asks_for_it_without_a_statement(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asyncio.ensure_future(waiting.watch(MINUTE))
    await asyncio.sleep(0)
    job = await bring(store, new_job())
    assert answer_to("question") in await told
    monkeypatch.setattr(waiting._claims, "_database", None)
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]


@pytest.mark.parametrize("text", ["x" * 20_000, "\\u00e4" * 1_200, "ä" * 6_000], ids=["long", "escaped", "wide"])
async def test_a_job_that_is_too_long_for_a_notice_is_looked_up(
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
async def test_what_was_not_asked_for_or_must_not_begin_twice_is_brought_to_nobody(
    store: PostgresStore, waiting: PostgresStore, fields: dict[str, object]
) -> None:
    job = await bring(store, new_job(**fields))  # type: ignore[arg-type]
    assert (await only(waiting, job)).state is State.PENDING


@pytest.mark.parametrize(
    "queue",
    [
        Queue("default", paused_at=None, max_running=1),
        Queue("default", rate_limit="1/s"),
        Queue("default", max_depth=10),
    ],
    ids=str,
)
async def test_a_queue_with_limits_is_left_to_claims(
    store: PostgresStore, waiting: PostgresStore, queue: Queue
) -> None:
    assert await waiting.put_queue(queue)
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_nothing_is_brought_out_of_a_queue_that_is_paused(store: PostgresStore, waiting: PostgresStore) -> None:
    now = await store.time()
    assert await waiting.put_queue(Queue("default", paused_at=now, pause_reason="a rest"))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


@pytest.mark.parametrize(
    "fields",
    [{"limit": 1}, {"claim_id": None}, {"stays": SHORTEST_STAY - SHORT}, {"stays": timedelta(0)}],
    ids=str,
)
async def test_who_has_room_for_one_or_does_not_stay_leaves_no_question(
    store: PostgresStore, other: PostgresStore, fields: dict[str, object]
) -> None:
    await all_ears(other)
    await leave(other, replace(QUESTION, **fields))  # type: ignore[arg-type]
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_who_cannot_hear_leaves_no_question(store: PostgresStore, other: PostgresStore) -> None:
    await leave(other, QUESTION)
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_single_lane_is_claimed_from_as_ever(store: PostgresStore, other: PostgresStore) -> None:
    await all_ears(other)
    await leave(other, replace(QUESTION, types=("mail",)))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_lanes_that_are_spelled_alike_are_not_taken_for_one(store: PostgresStore, other: PostgresStore) -> None:
    await all_ears(other)
    await leave(other, replace(QUESTION, queues=("a", "ab"), types=("bc", "d")))
    assert (await only(store, await bring(store, new_job("c", queue="ab")))).state is State.PENDING
    assert (await only(store, await bring(store, new_job("bc", queue="a")))).state is State.RUNNING


async def test_whose_process_has_died_is_brought_nothing(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """As a kill does: its connections are gone, and its question is still there."""
    assert waiting._ear._listening is not None
    waiting._ear._listening.cancel()
    await asyncio.wait([waiting._ear._listening])
    async with asyncio.timeout(20):
        while await stranger.fetchval(HELD):  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.01)
    assert await stranger.fetchval("SELECT count(*) FROM open_claim") == 1
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


@pytest.mark.usefixtures("waiting")
async def test_two_who_bring_something_at_once_both_see_that_somebody_has_died(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """The lock that tells it must not be taken from each other by those who try it."""
    await stranger.execute("UPDATE open_claim SET sign = 4711")
    async with stranger.transaction():
        assert await stranger.fetchval("SELECT pg_try_advisory_xact_lock_shared(4711)")
        assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_a_question_stays_a_little_shorter_than_who_asks_it(
    waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    ((since, until),) = await stranger.fetch("SELECT since, until FROM open_claim")
    assert timedelta(microseconds=until - since) == STAYS - HEARING
    await leave(waiting, replace(QUESTION, claim_id="long", stays=MINUTE))
    ((since, until),) = await stranger.fetch("SELECT since, until FROM open_claim")
    assert timedelta(microseconds=until - since) == LONGEST_STAY - HEARING


@pytest.mark.parametrize("column", ["until", "since"])
async def test_a_question_that_has_stayed_for_long_enough_is_answered_no_more(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection, column: str
) -> None:
    await stranger.execute(f"UPDATE open_claim SET {column} = {column} - 5000000")  # noqa: S608 - our own names
    assert (await only(waiting, await bring(store, new_job()))).state is State.PENDING


async def test_a_question_that_was_left_at_a_time_to_come_is_not_answered(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """The server's clock was put back: for how long it has been there nobody knows."""
    await stranger.execute("UPDATE open_claim SET since = since + 3600000000, until = until + 3600000000")
    assert (await only(waiting, await bring(store, new_job()))).state is State.PENDING


async def test_one_question_is_answered_once(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    first = await bring_aloud(store, waiting, new_job())
    assert await stranger.fetchval("SELECT count(*) FROM open_claim") == 0
    second = await bring_aloud(store, waiting, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [first.id]
    assert (await only(store, second)).state is State.PENDING


async def test_who_asks_again_for_what_has_ended_is_given_nothing(store: PostgresStore, waiting: PostgresStore) -> None:
    await bring_aloud(store, waiting, new_job())
    (given,) = await waiting.claim(QUESTION)
    again = replace(QUESTION, is_new=False)
    assert await waiting.claim(again) == [given]
    assert await store.settle([decide(given, Succeeded("null"), means())]) == [given.id]
    assert not await waiting.claim(again)


async def test_a_question_that_a_claim_has_answered_is_not_answered_again(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    jobs = new_jobs(2)
    await store.insert(jobs)
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id for job in jobs]
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_who_meets_a_claim_that_answers_the_same_question_stores_its_job_for_all(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """Both write under its name. Who comes second waits for the first, and finds that it cannot."""
    async with stranger.transaction():
        await stranger.execute("INSERT INTO claim (claim_id, at, leases) VALUES ('question', 0, '[]')")
        bringing = asyncio.ensure_future(bring(store, new_job()))
        async with asyncio.timeout(20):
            while not await stranger.fetchval(AWAITED):  # noqa: ASYNC110 - only the server knows
                await asyncio.sleep(0.01)
    assert (await only(waiting, await bringing)).state is State.PENDING


async def test_a_claim_that_meets_what_was_brought_for_it_gives_that(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    """It was rung for by something else, and the answer is still under way."""
    deafen(waiting)
    brought = await bring(store, new_job())
    pending = new_jobs(2)
    await store.insert(pending)
    assert [given.id for given in await waiting.claim(QUESTION)] == [brought.id]
    assert [job.state for job in await store.get([job.id for job in pending])] == [State.PENDING] * 2


async def test_what_came_while_nothing_could_be_heard_is_found(store: PostgresStore, waiting: PostgresStore) -> None:
    kept = waiting._open_claims._by_claim["question"]
    deafen(waiting)
    brought = await bring(store, new_job())
    assert not await waiting.claim(QUESTION)
    kept.address = None
    assert [given.id for given in await waiting.claim(QUESTION)] == [brought.id]


async def test_what_nobody_heard_comes_along_with_the_next_question(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    """We may be deaf without knowing it, or the answer came too late: whoever goes on asking still gets it."""
    deafen(waiting)
    brought = await bring(store, new_job())
    assert await waiting.claim(replace(QUESTION, claim_id="next")) == [await only(store, brought)]
    await leave(waiting, replace(QUESTION, claim_id="the one after"))


async def test_what_nobody_heard_comes_along_with_what_is_found(store: PostgresStore, waiting: PostgresStore) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    pending = new_jobs(2)
    await store.insert(pending)
    given = await waiting.claim(replace(QUESTION, claim_id="next"))
    assert [job.id for job in given] == [*(job.id for job in pending), brought.id]


async def asked_while_answering(
    store: PostgresStore, asking: PostgresStore, question: Claim, stranger: asyncpg.Connection
) -> tuple[NewJob, Sequence[Job]]:
    """Ask as somebody answers what stays, whose commit stalls until we wait for it."""
    await stranger.execute("CREATE TABLE held (id integer); INSERT INTO held VALUES (1)")
    await stranger.execute(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM 1 FROM held FOR UPDATE; RETURN NULL; END $$;"
        " CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON claim DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION stall()"
    )
    try:
        async with stranger.transaction():
            await stranger.execute("SELECT 1 FROM held FOR UPDATE")
            bringing = asyncio.ensure_future(bring(store, new_job()))
            async with asyncio.timeout(20):
                while await stranger.fetchval(AWAITED) < 1:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
                asked = asyncio.ensure_future(asking.claim(question))
                while await stranger.fetchval(AWAITED) < 2:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
        return await bringing, await asked
    finally:
        await stranger.execute("DROP FUNCTION stall() CASCADE; DROP TABLE held")


async def test_who_asks_anew_waits_for_an_answer_that_is_just_being_given(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """A disk or a standby may stall for longer than a claim stays."""
    job, given = await asked_while_answering(store, waiting, replace(QUESTION, claim_id="next"), stranger)
    assert [one.id for one in given] == [job.id]


@pytest.mark.parametrize("ahead", [timedelta(0), AHEAD], ids=["not ahead", "ahead"])
async def test_who_stops_waits_for_an_answer_that_is_just_being_given(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection, ahead: timedelta
) -> None:
    """Nobody would ask once more."""
    job, given = await asked_while_answering(store, waiting, replace(LAST_WORD, ahead=ahead), stranger)
    assert [one.id for one in given] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_who_speaks_for_the_dead_waits_for_an_answer_that_is_just_being_given(
    store: PostgresStore, stranger: asyncpg.Connection, dsn: str
) -> None:
    companion = await PostgresStore.open(dsn)
    try:
        job, given = await asked_while_answering(store, companion, SPOKEN_FOR, stranger)
    finally:
        await companion.close()
    assert [one.id for one in given] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_who_speaks_for_the_dead_takes_its_question_away(store: PostgresStore, dsn: str) -> None:
    companion = await PostgresStore.open(dsn)
    try:
        await leave(companion, SPOKEN_FOR)
    finally:
        await companion.close()
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_who_stops_and_looks_ahead_takes_its_question_along_too(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    await leave(waiting, replace(LAST_WORD, ahead=AHEAD))
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_whose_claims_never_stay_takes_none_away(waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker over HTTP has names for its claims, and each of them would cost a statement more."""
    monkeypatch.setattr(leasing, "take_away", None)
    await leave(waiting, claim(BEN, limit=2, types=("mail", "bill"), claim_id="over http"))


async def test_what_comes_along_late_has_its_whole_lease(store: PostgresStore, waiting: PostgresStore) -> None:
    """Its worker counts from when it asked anew."""
    deafen(waiting)
    brought = await bring(store, new_job())
    asked_at = await store.time()
    (given,) = await waiting.claim(replace(QUESTION, claim_id="next", lease=MINUTE))
    assert given.lease_until is not None
    assert given.lease_until >= asked_at + MINUTE
    assert given == await only(store, brought)


async def test_what_has_ended_before_it_could_come_along_does_not(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    recall = waiting._claims._recall

    async def slowly(claim_id: str) -> Sequence[Job]:
        jobs = await recall(claim_id)
        for job in jobs:
            assert await store.settle([decide(job, Succeeded("null"), means())]) == [job.id]
        return jobs

    monkeypatch.setattr(waiting._claims, "_recall", slowly)
    assert not await waiting.claim(replace(QUESTION, claim_id="next"))
    assert (await only(store, brought)).state is State.COMPLETED


async def test_an_answer_that_comes_after_its_claim_was_given_up_is_the_answer_to_the_next(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    job = await bring_aloud(store, waiting, new_job())
    assert not waiting.brought(replace(QUESTION, claim_id="next"))
    later = await store.time() + timedelta(seconds=9)
    (given,) = await waiting.claim(replace(QUESTION, claim_id="next"), now=later)
    # Looked up, and with a lease that begins anew: the worker counts it from when it asked.
    assert (given.id, given.lease_until) == (job.id, later + QUESTION.lease)


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize("step", ["_recall", "_late"])
async def test_what_a_former_question_gave_is_not_forgotten_when_the_next_is_called_off(
    store: PostgresStore, waiting: PostgresStore, monkeypatch: pytest.MonkeyPatch, step: str, *, heard: bool
) -> None:
    """The job was given to nobody, and waited for its lease."""
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
    given = await waiting.claim(replace(following, stays=timedelta(0), limit=1, is_new=False))
    assert [one.id for one in given] == [job.id]
    assert not await waiting.claim(replace(QUESTION, claim_id="one more"))


async def test_who_looks_ahead_does_not_take_its_question_back(store: PostgresStore, waiting: PostgresStore) -> None:
    await leave(waiting, replace(QUESTION, stays=timedelta(0), ahead=AHEAD))
    assert (await only(store, await bring(store, new_job()))).state is State.RUNNING


async def test_a_worker_that_finds_something_each_time_is_not_asked_about_its_last_claim(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_ears(other)
    recalled: list[str] = []
    monkeypatch.setattr(other._claims, "_recall", recalled.append)
    for name in ("first", "second", "third"):
        await store.insert(new_jobs(2))
        assert len(await other.claim(replace(QUESTION, claim_id=name))) == 2
    assert not recalled


async def test_who_stops_is_given_what_came_at_the_last_moment(store: PostgresStore, waiting: PostgresStore) -> None:
    deafen(waiting)
    brought = await bring(store, new_job())
    assert [given.id for given in await waiting.claim(LAST_WORD)] == [brought.id]


async def test_who_stops_takes_its_question_along(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await leave(waiting, LAST_WORD)
    assert await stranger.fetchval("SELECT count(*) FROM open_claim") == 0
    assert (await only(store, await bring(store, new_job()))).state is State.PENDING


async def test_the_next_question_of_a_worker_takes_the_place_of_its_last(
    waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await leave(waiting, replace(QUESTION, claim_id="next"))
    await leave(waiting, replace(QUESTION, claim_id="other", worker=BEN))
    names = await stranger.fetch("SELECT claim_id FROM open_claim ORDER BY since")
    assert [name for (name,) in names] == ["next", "other"]


async def test_who_has_waited_longest_is_first(store: PostgresStore, waiting: PostgresStore) -> None:
    others = [replace(QUESTION, claim_id=name, worker=WorkerId(name, name)) for name in ("b", "a", "c")]
    for question in others:
        await leave(waiting, question)
    workers = [(await only(store, await bring(store, new_job()))).worker for _ in range(5)]
    assert workers == ["ada", "b", "a", "c", None]


async def test_what_this_process_brings_itself_needs_no_notice(waiting: PostgresStore) -> None:
    deafen(waiting)
    job = await bring(waiting, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]


@pytest.mark.usefixtures("waiting")
async def test_who_wants_to_hear_of_every_job_is_told_of_one_that_was_brought(store: PostgresStore, dsn: str) -> None:
    watcher = await PostgresStore.open(dsn)
    try:
        await all_ears(watcher)
        unasked = watcher._ear._unasked
        await bring_aloud(store, watcher, new_job())
        assert watcher._ear._news[-1] == {BROUGHT}
        # It is nothing to ask for.
        assert watcher._ear._unasked == unasked
    finally:
        await watcher.close()


async def test_who_waits_elsewhere_is_left_in_peace(store: PostgresStore, waiting: PostgresStore, dsn: str) -> None:
    elsewhere = await PostgresStore.open(dsn)
    try:
        await leave(elsewhere, replace(QUESTION, worker=BEN, claim_id="elsewhere", types=("bill",)))
        while await elsewhere.watch(SHORT) or elsewhere._open_claims.address is None:
            pass
        count = elsewhere._ear._count
        await bring_aloud(store, waiting, new_job())
        # What comes by the next notice comes behind it.
        await store.insert(new_jobs(2))
        await until_heard(elsewhere, count)
        assert elsewhere._ear._count == count + 1
    finally:
        await elsewhere.close()


async def test_nobody_hears_of_a_payload_but_who_is_brought_it(
    store: PostgresStore, waiting: PostgresStore, stranger: asyncpg.Connection
) -> None:
    heard: list[str] = []
    for channel in (hearing.CHANNEL, hearing.WORK_CHANNEL, hearing.BROUGHT_CHANNEL):
        await stranger.add_listener(channel, lambda *words: heard.append(str(words[-1])))
    await bring_aloud(store, waiting, new_job(payload='"secret"'))
    await stranger.fetchval("SELECT 1")
    assert heard == [""]


@pytest.mark.parametrize("text", ["", "[]", '["question"]', '["question", "now", null]', "null"])
async def test_an_answer_that_is_none_wakes_those_who_wait(
    waiting: PostgresStore, stranger: asyncpg.Connection, text: str
) -> None:
    assert waiting._open_claims.address is not None
    count = waiting._ear._count
    await stranger.execute("SELECT pg_notify($1, $2)", waiting._open_claims.address.channel, text)
    await until_heard(waiting, count)
    assert EVERY_QUEUE in waiting._ear._news[-1]
    assert not await waiting.claim(QUESTION)


@pytest.mark.usefixtures("waiting")
async def test_questions_of_the_dead_are_forgotten(store: PostgresStore, stranger: asyncpg.Connection) -> None:
    await stranger.execute("UPDATE open_claim SET since = since - 5000000")
    # So that there is something to clear away.
    await stranger.execute("INSERT INTO claim (claim_id, at, leases) VALUES ('old', 0, '[]')")
    await store.prune(Retention(), 100)
    assert await stranger.fetchval("SELECT count(*) FROM open_claim") == 0


def test_only_so_many_workers_are_kept_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota.stores.open_claims, "MOST", 3)
    kept = open_claims.OpenClaims()
    kept.address = open_claims.new_address()
    for number in range(10):
        kept.stay(replace(QUESTION, claim_id=f"q{number}", worker=WorkerId("w", f"b{number}")))
    assert len(kept._by_boot) == len(kept._by_claim) == 3


async def test_what_came_by_name_does_not_come_once_more_by_its_notice(
    store: PostgresStore, waiting: PostgresStore
) -> None:
    """The claim met its own answer, which it had not heard of yet, as it leased others."""
    deafen(waiting)
    job = await bring_aloud(store, waiting, new_job())
    await store.insert(new_jobs(2))
    assert [given.id for given in await waiting.claim(replace(QUESTION, is_new=True))] == [job.id]
    late = Answer("question", 0, told_of(job, LONGEST_ANSWER))
    assert not waiting._open_claims.bring(late)
    given = await waiting.claim(replace(QUESTION, claim_id="next question", limit=9))
    assert job.id not in [one.id for one in given]
    assert len(given) == 2


async def test_every_job_comes_to_one_worker_however_it_comes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await each_job_comes_once(dsn, monkeypatch)


def test_two_who_ask_by_the_same_name_are_not_mixed_up() -> None:
    kept = open_claims.OpenClaims()
    kept.address = open_claims.new_address()
    for boot in ("b1", "b2", "b1", "b2"):
        for name in ("same", "other"):
            kept.stay(replace(QUESTION, claim_id=name, worker=WorkerId("w", boot)))
    assert kept.stay(replace(QUESTION, stays=timedelta(0), worker=WorkerId("w", "b1"))).former == "other"
