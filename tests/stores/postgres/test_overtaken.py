"""Claims of several lanes: who finds nothing at all asks once, and who was overtaken looks again."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from building import claim, ids_of, new_job
from guard.counting import PostgresQueries
from rota.core.lease import Claim
from rota.stores.postgres import PostgresStore, leasing
from rota.stores.postgres.lanes import Lane
from rota.stores.postgres.session import Session

WANTED = claim(types=("mail", "report"), claim_id="c", is_new=True)


async def test_where_there_is_nothing_one_look_is_enough(store: PostgresStore) -> None:
    counts = await PostgresQueries(store).counted(lambda: store.claim(WANTED))
    assert counts["statements"] == 1


async def test_who_was_overtaken_everywhere_looks_again(
    store: PostgresStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = new_job(type="mail")
    await store.insert([job])
    other = await asyncpg.connect(dsn)
    holding = other.transaction()
    await holding.start()
    await other.execute("SELECT 1 FROM job FOR UPDATE")
    assert list(await store.claim(WANTED)) == [], "somebody has it: nothing is no job"
    look = leasing.busy

    async def let_go(session: Session, wanted: Claim, lanes: Sequence[Lane], now: int | None) -> list[Lane]:
        await holding.rollback()
        return await look(session, wanted, lanes, now)

    monkeypatch.setattr(leasing, "busy", let_go)
    assert ids_of(await store.claim(WANTED)) == [job.id]
    await other.close()
