from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from conformance.coordination.adapters import LASTING, Place
from conformance.coordination.conftest import Eventually
from rota.core.cluster import Member, Role
from rota.ports.coordinator import Coordinator

WORKER = Member(
    Role.WORKER,
    "ada",
    "boot-1",
    host="here",
    pid=7,
    version="1.2.3",
    address="127.0.0.1:9090",
    queues=("default", "mail"),
    types=None,
    slots=10,
    busy=3,
    started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)
SCHEDULER = Member(Role.SCHEDULER, "bob", "boot-2", types=("a", "b"), started_at=WORKER.started_at)


def unseen(members: Sequence[Member]) -> list[Member]:
    return [replace(member, seen_at=None) for member in members]


async def test_a_member_is_listed_everywhere_as_it_described_itself(ours: Coordinator, theirs: Coordinator) -> None:
    await ours.register([SCHEDULER, WORKER])
    assert unseen(await theirs.members()) == [WORKER, SCHEDULER]
    assert all(member.seen_at is not None for member in await theirs.members())


async def test_the_roll_is_called_by_role(ours: Coordinator) -> None:
    await ours.register([WORKER, SCHEDULER])
    assert unseen(await ours.members(Role.SCHEDULER)) == [SCHEDULER]
    assert await ours.members(Role.API) == []


async def test_what_a_member_says_anew_is_known_at_once(ours: Coordinator, theirs: Coordinator) -> None:
    await ours.register([WORKER])
    draining = replace(WORKER, is_draining=True)
    await ours.register([draining])
    assert unseen(await theirs.members()) == [draining]


async def test_a_repeated_heartbeat_moves_seen_at(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[datetime]
) -> None:
    """With etcd the time was that of the last change, and stood still in a cluster where nothing changed."""
    await ours.register([WORKER])

    async def seen() -> datetime:
        await ours.register([WORKER])
        (member,) = await theirs.members()
        assert member.seen_at is not None
        return member.seen_at

    first = await seen()
    await eventually(seen, lambda moment: moment > first + timedelta(seconds=1))


async def test_a_silent_member_vanishes_and_others_stay(
    ours: Coordinator, theirs: Coordinator, eventually: Eventually[list[str]]
) -> None:
    await ours.register([WORKER, SCHEDULER])

    async def names() -> list[str]:
        await theirs.register([replace(SCHEDULER, boot="boot-3", name="eve")])
        await ours.register([SCHEDULER])
        return [member.name for member in await theirs.members()]

    assert await eventually(names, lambda seen: "ada" not in seen) == ["bob", "eve"]


async def test_who_vanished_and_comes_back_is_known_again(
    ours: Coordinator, eventually: Eventually[Sequence[Member]]
) -> None:
    """Stopped past its time, a process goes on with what it remembers."""
    await ours.register([WORKER])
    await eventually(ours.members, lambda seen: not seen)
    await ours.register([WORKER])
    assert unseen(await ours.members()) == [WORKER]


async def test_who_says_goodbye_is_forgotten_at_once_by_whomever_it_is_told(
    ours: Coordinator, theirs: Coordinator
) -> None:
    await ours.register([WORKER, SCHEDULER])
    await ours.deregister([WORKER.boot, "unknown"])
    assert unseen(await theirs.members()) == [SCHEDULER]
    await theirs.deregister([SCHEDULER.boot])
    assert await ours.members() == []


async def test_the_same_name_twice_is_two_members(ours: Coordinator, place: Place) -> None:
    """A reused name of a pod must not hide that the former one died."""
    await ours.register([WORKER, replace(WORKER, boot="boot-9")])
    await place.pass_time(LASTING.total_seconds() / 10)
    assert [member.boot for member in await ours.members()] == ["boot-1", "boot-9"]
