from __future__ import annotations

import asyncio
from dataclasses import replace

from builders import BASE, HOUR, MICROSECOND, SECOND, ManualClock, at
from rota.core.cluster import Leadership, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.ports.store import Store

TEN = 10 * SECOND
ADA = Member(
    role=Role.WORKER,
    name="ada",
    boot="b1",
    host='grün\'s "host"',
    pid=4242,
    version="1.0",
    address="10.0.0.1:80",
    queues=("a", 'b "quoted" \\ 100%'),
    types=("mail", "🙂"),
    slots=8,
    busy=3,
    is_draining=True,
    started_at=at(-60),
)
SAM = Member(role=Role.SCHEDULER, name="sam", boot="b2", types=None)


def candidate(holder: str, *members: Member) -> MemberHeartbeat:
    return MemberHeartbeat(members, "upkeep", holder, TEN)


async def test_members_are_recorded_as_they_described_themselves(store: Store) -> None:
    await store.check_in(candidate("a", SAM, ADA), now=at(1))
    await store.check_in(candidate("a", replace(SAM, pid=7), replace(ADA, busy=8, is_draining=False)), now=at(2))
    assert await store.members() == [
        replace(ADA, busy=8, is_draining=False, seen_at=at(2)),
        replace(SAM, pid=7, started_at=at(1), seen_at=at(2)),
    ]


async def test_a_start_time_that_comes_with_a_later_heartbeat_is_recorded(store: Store) -> None:
    await store.check_in(candidate("a", replace(ADA, started_at=None)), now=at(1))
    await store.check_in(candidate("a", ADA), now=at(2))
    assert [member.started_at for member in await store.members()] == [at(-60)]


async def test_the_first_to_check_in_leads_and_keeps_its_lead_without_a_new_term(store: Store) -> None:
    first = await store.check_in(candidate("a"), now=BASE)
    again = await store.check_in(candidate("a"), now=at(5))
    assert first.leadership == Leadership("upkeep", "a", 1, at(10))
    assert again.leadership == Leadership("upkeep", "a", 1, at(15))
    assert await store.leader("upkeep", now=at(5)) == again.leadership


async def test_other_processes_see_the_leader_until_its_term_ends(store: Store) -> None:
    first = await store.lead("upkeep", "a", TEN, now=BASE)
    assert (await store.check_in(candidate("b"), now=at(10) - MICROSECOND)).leadership == first
    assert (await store.check_in(candidate("b"), now=at(10))).leadership == Leadership("upkeep", "b", 2, at(20))
    assert (await store.check_in(candidate("a"), now=at(11))).leadership == Leadership("upkeep", "b", 2, at(20))


async def test_a_process_that_does_not_ask_for_the_lead_only_sees_the_leader(store: Store) -> None:
    onlooker = MemberHeartbeat((ADA,), "upkeep")
    assert (await store.check_in(onlooker, now=BASE)).leadership is None
    lead = await store.lead("upkeep", "a", TEN, now=BASE)
    assert (await store.check_in(onlooker, now=at(9))).leadership == lead
    assert (await store.check_in(onlooker, now=at(10))).leadership is None
    assert (await store.lead("upkeep", "b", TEN, now=at(10))).term == 2


async def test_a_lead_that_was_given_up_is_free(store: Store) -> None:
    await store.check_in(candidate("a"), now=BASE)
    await store.resign("upkeep", "a")
    assert (await store.check_in(candidate("b"), now=at(1))).leadership == Leadership("upkeep", "b", 2, at(11))


async def test_the_configuration_is_seen(store: Store) -> None:
    assert (await store.check_in(candidate("a"), now=BASE)).configuration == Configuration()
    await store.configure("log_level", "debug")
    await store.configure("colour", 'blue "and" ä')
    expected = Configuration({"log_level": "debug", "colour": 'blue "and" ä'}, 2)
    assert (await store.check_in(candidate("a"), now=BASE)).configuration == expected
    assert await store.configuration() == expected


async def test_a_removed_key_of_the_configuration_is_gone_and_the_revision_grows(store: Store) -> None:
    await store.configure("log_level", "debug")
    await store.configure("log_level", None)
    assert (await store.check_in(candidate("a"), now=BASE)).configuration == Configuration({}, 2)
    await store.configure("log_level", "info")
    assert await store.configuration() == Configuration({"log_level": "info"}, 3)


async def test_changes_of_several_keys_at_once_all_hold(store: Store) -> None:
    keys = [f"key-{number}" for number in range(8)]
    await asyncio.gather(*(store.configure(key, "value") for key in keys))
    assert await store.configuration() == Configuration(dict.fromkeys(keys, "value"), len(keys))


async def test_of_many_processes_at_once_one_leads(store: Store) -> None:
    for turn in range(3):
        summary = [candidate(f"node-{number}", replace(SAM, boot=str(number))) for number in range(8)]
        found = await asyncio.gather(*(store.check_in(one, now=at(20 * turn)) for one in summary))
        leader = await store.leader("upkeep", now=at(20 * turn))
        assert leader is not None
        assert leader.term <= turn + 1
        # A check-in at the moment of the change may return no leader; never two.
        assert {one.leadership for one in found} - {None} == {leader}
    assert len(await store.members()) == 8


async def test_checking_in_goes_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    bearings = await store.check_in(candidate("a", SAM))
    assert bearings.leadership == Leadership("upkeep", "a", 1, BASE + HOUR + TEN)
    assert [(one.started_at, one.seen_at) for one in await store.members()] == [(BASE + HOUR, BASE + HOUR)]
