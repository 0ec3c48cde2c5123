from __future__ import annotations

import asyncio
from datetime import timedelta

from conformance.coordination.adapters import Place
from rota.core.configuration import Configuration
from rota.ports.coordinator import Coordinator

LONG, NOW = timedelta(seconds=60), timedelta(0)


async def test_nothing_is_configured_at_first(ours: Coordinator) -> None:
    assert (await ours.configuration()).values == {}


async def test_what_one_sets_all_read(ours: Coordinator, theirs: Coordinator) -> None:
    await ours.configure("log_level", "debug")
    await theirs.configure("colour", 'grün, "quoted" / and 🙂')
    assert (await theirs.configuration()).values == {"log_level": "debug", "colour": 'grün, "quoted" / and 🙂'}
    await theirs.configure("log_level", "error")
    await theirs.configure("colour", None)
    assert (await ours.configuration()).values == {"log_level": "error"}


async def test_forgetting_what_was_never_set_does_nothing(ours: Coordinator) -> None:
    await ours.configure("log_level", None)
    assert (await ours.configuration()).values == {}


async def test_changes_of_different_keys_at_once_all_hold(place: Place) -> None:
    several = [await place.open() for _ in range(3)]
    await asyncio.gather(*(one.configure(f"key-{number}", "x") for number, one in enumerate(several)))
    assert set((await several[0].configuration()).values) == {"key-0", "key-1", "key-2"}


async def test_a_waiting_process_gets_a_change_by_another(ours: Coordinator, theirs: Coordinator) -> None:
    before = await theirs.configuration()
    waiting = asyncio.create_task(theirs.changed(before, LONG))
    await ours.configure("log_level", "debug")
    async with asyncio.timeout(50):
        after = await waiting
    assert after.values == {"log_level": "debug"}
    assert after.revision != before.revision


async def test_a_waiting_process_gets_the_removal_of_a_key(ours: Coordinator, theirs: Coordinator) -> None:
    await ours.configure("log_level", "debug")
    waiting = asyncio.create_task(theirs.changed(await theirs.configuration(), LONG))
    await ours.configure("log_level", None)
    async with asyncio.timeout(50):
        assert (await waiting).values == {}


async def test_a_change_between_the_look_and_the_wait_is_not_missed(ours: Coordinator, theirs: Coordinator) -> None:
    before = await theirs.configuration()
    await ours.configure("log_level", "debug")
    async with asyncio.timeout(50):
        assert (await theirs.changed(before, LONG)).values == {"log_level": "debug"}


async def test_a_process_that_waits_in_vain_gets_the_present_configuration(ours: Coordinator) -> None:
    await ours.configure("log_level", "debug")
    seen = await ours.configuration()
    assert (await ours.changed(seen, NOW)).values == {"log_level": "debug"}


async def test_a_process_without_a_revision_gets_the_configuration_at_once(ours: Coordinator) -> None:
    await ours.configure("log_level", "debug")
    async with asyncio.timeout(50):
        assert (await ours.changed(Configuration(), LONG)).values == {"log_level": "debug"}
