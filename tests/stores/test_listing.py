"""Slices of a list: every answer is given within a bounded time, however slow the store is."""

from __future__ import annotations

import pytest

from rota.core.ids import JobId
from rota.core.search.terms import WordTerm
from rota.ports.store import JobQuery, JobSlice, Position
from rota.stores import listing


class SlowStore:
    """A store in which nothing fits, that takes a while for each statement and for each candidate."""

    def __init__(self, candidate_seconds: float) -> None:
        self.now = 100.0
        self.sizes: list[int] = []
        self._candidate_seconds = candidate_seconds

    def time(self) -> float:
        return self.now

    async def slice(self, _query: JobQuery, size: int) -> JobSlice:
        self.sizes.append(size)
        self.now += 0.0005 + size * self._candidate_seconds
        return JobSlice((), Position(JobId(10**9 - sum(self.sizes))))


@pytest.mark.parametrize("micros", [0.1, 1, 3, 10, 50])
async def test_an_answer_keeps_within_its_time_whatever_a_candidate_costs(
    monkeypatch: pytest.MonkeyPatch, micros: float
) -> None:
    """A slice of 20,000 candidates was begun when there was hardly time for a hundred."""
    store = SlowStore(micros / 1e6)
    monkeypatch.setattr(listing, "monotonic", store.time)
    found = await listing.find_some(store.slice, JobQuery())
    assert found.resume is not None
    assert store.now - 100.0 <= 1.1 * listing.BUDGET_SECONDS
    # And does not give up long before.
    assert store.now - 100.0 >= 0.5 * listing.BUDGET_SECONDS


async def test_a_store_too_slow_for_a_second_slice_still_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlowStore(0.001)
    monkeypatch.setattr(listing, "monotonic", store.time)
    assert (await listing.find_some(store.slice, JobQuery())).resume is not None
    assert store.sizes == [JobQuery().limit]


async def test_the_first_slice_of_a_search_is_small_whatever_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with a megabyte each, or with many names to compare, take long: the time for more is known afterwards."""
    store = SlowStore(0.002)
    monkeypatch.setattr(listing, "monotonic", store.time)
    await listing.find_some(store.slice, JobQuery(terms=(WordTerm("mail"),), limit=500))
    assert store.sizes == [listing.FIRST_ROWS]


async def test_slices_of_a_search_grow_if_rows_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlowStore(0.00001)
    monkeypatch.setattr(listing, "monotonic", store.time)
    await listing.find_some(store.slice, JobQuery(terms=(WordTerm("mail"),), limit=500))
    assert store.sizes[:4] == [20, 80, 200, 200]
