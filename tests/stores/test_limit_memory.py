"""What a process remembers about limits: when a claim searches for jobs that limits concern before it takes others."""

from __future__ import annotations

import pytest

from builders import claim, fresh_id
from rota.stores import limit_memory
from rota.stores.limit_memory import HELD_SECONDS, LimitMemory


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found = [0.0]
    monkeypatch.setattr(limit_memory, "monotonic", lambda: found[0])
    return found


@pytest.fixture
def memory(seconds: list[float]) -> LimitMemory:
    del seconds
    made = LimitMemory()
    made.note_limits((), has_keys=True)
    return made


def first(memory: LimitMemory, queues: tuple[str, ...] = ("default",)) -> list[bool]:
    return [memory.is_ordinary_first(claim(queues=queues)) for _ in range(4)]


def test_ordinary_and_limited_jobs_take_turns(memory: LimitMemory) -> None:
    assert first(memory) == [True, False, True, False]


def test_while_limits_hold_all_others_back_ordinary_jobs_go_first(memory: LimitMemory, seconds: list[float]) -> None:
    memory.note_held(claim())
    assert first(memory) == [True] * 4
    assert False in first(memory, queues=("other",))
    seconds[0] = HELD_SECONDS
    assert False in first(memory)


def test_a_limit_that_opens_soon_is_looked_at_then(memory: LimitMemory, seconds: list[float]) -> None:
    memory.note_held(claim(), 0.1)
    assert first(memory) == [True] * 4
    seconds[0] = 0.1
    assert False in first(memory)


def test_a_permit_that_is_freed_or_a_job_that_comes_in_this_process_is_looked_at_at_once(memory: LimitMemory) -> None:
    job_id = fresh_id()
    memory.note_leased([job_id])
    memory.note_held(claim())
    assert memory.note_settled([job_id])
    assert False in first(memory)
    memory.note_held(claim())
    memory.note_in_use()
    assert False in first(memory)
