"""Submitting within the caller's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.core.alike import check_all
from rota.core.errors import StoreUnavailable
from rota.core.submission import NewJob
from rota.ports.guest import Guest, Make
from rota.ports.store import Inserted, Receipt

#: How often other ids are taken.
ROUNDS: Final = 10


async def submit_within(guest: Guest, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
    """Store jobs in the caller's transaction, all of them or none.

    Nothing is announced and no event tells of it: nobody can know yet whether the transaction will be committed. The
    store itself lets the workers know when it is.
    """

    def checked(now: datetime) -> Sequence[NewJob]:
        jobs = make(now)
        check_all(jobs)
        return jobs

    for _ in range(ROUNDS):
        answers = await guest.insert(checked, bound=bound)
        if all(answer.receipt is not Receipt.ID_TAKEN for answer in answers):
            return answers
    raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")
