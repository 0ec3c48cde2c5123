from __future__ import annotations

from dataclasses import replace

from builders import BASE, DAY, HOUR, entry
from rota.core.access import Token, TokenLimits
from rota.ports.store import Store

FULL = Token(
    id="t1",
    name="deploy",
    digest=bytes(range(32)),
    created_at=BASE,
    role="viewer",
    actions=("jobs.submit", "jobs.cancel"),
    queues=("a", "b"),
    limits=TokenLimits(requests_per_second=5, bytes_in_flight=1_000),
    expires_at=BASE + DAY,
    revoked_at=BASE + HOUR,
)
PLAIN = Token(id="t2", name="read", digest=b"\0\xff", created_at=BASE)


async def test_tokens_are_kept_as_they_were_given(store: Store) -> None:
    await store.put_tokens([FULL, PLAIN])
    assert sorted(await store.tokens(), key=lambda token: token.id) == [FULL, PLAIN]


async def test_a_token_is_replaced_by_its_id(store: Store) -> None:
    await store.put_tokens([PLAIN])
    revoked = replace(PLAIN, revoked_at=BASE + HOUR, actions=("work",), limits=FULL.limits)
    await store.put_tokens([revoked])
    assert await store.tokens() == [revoked]


async def test_tokens_are_found_by_id(store: Store) -> None:
    await store.put_tokens([FULL, PLAIN])
    assert await store.tokens(ids=["t2", "unknown"]) == [PLAIN]


async def test_an_unknown_token_is_absent(store: Store) -> None:
    await store.put_tokens([PLAIN])
    assert await store.tokens(ids=["t9"]) == []


async def test_an_entry_is_written_with_the_tokens(store: Store) -> None:
    await store.put_tokens([PLAIN], entry=entry("grant"))
    assert [written.action for written in await store.ledger()] == ["grant"]


async def test_a_revocation_is_not_undone_by_an_older_copy_of_the_token(store: Store) -> None:
    await store.put_tokens([PLAIN])
    await store.put_tokens([replace(PLAIN, revoked_at=BASE + HOUR)])
    await store.put_tokens([replace(PLAIN, expires_at=BASE + DAY)])
    assert await store.tokens() == [replace(PLAIN, expires_at=BASE + DAY, revoked_at=BASE + HOUR)]
