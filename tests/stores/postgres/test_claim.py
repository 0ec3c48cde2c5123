"""Claims of several lanes: one statement if there is nothing, a second read if other workers were faster."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from builders import claim, ids_of, new_job
from guard.counting import PostgresQueries
from rota.core.lease import Claim
from rota.stores.postgres import PostgresStore
from rota.stores.postgres import claim as claims
from rota.stores.postgres.lanes import LaneStart
from rota.stores.postgres.session import Session

WANTED = claim(types=("mail", "report"), claim_id="c", is_new=True)


async def test_an_empty_claim_is_one_statement(store: PostgresStore) -> None:
    # The first claim also looks for limits.
    await store.claim(WANTED)
    counts = await PostgresQueries(store).counted(lambda: store.claim(WANTED))
    assert counts["statements"] == 1


async def test_a_claim_that_lost_all_races_looks_again(
    store: PostgresStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = new_job(type="mail")
    await store.insert([job])
    other = await asyncpg.connect(dsn)
    holding = other.transaction()
    await holding.start()
    await other.execute("SELECT 1 FROM rota_job FOR UPDATE")
    assert list(await store.claim(WANTED)) == [], "somebody has it: nothing is no job"
    look = claims.busy_lanes

    async def let_go(session: Session, claim: Claim, lanes: Sequence[LaneStart], now: int | None) -> list[LaneStart]:
        await holding.rollback()
        return await look(session, claim, lanes, now)

    monkeypatch.setattr(claims, "busy_lanes", let_go)
    assert ids_of(await store.claim(WANTED)) == [job.id]
    await other.close()
