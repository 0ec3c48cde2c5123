"""The shared configuration, read with a check-in and by itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from rota.coordination.database import DatabaseCoordinator
from rota.core.cluster import MemberHeartbeat
from rota.stores.sqlite import SqliteStore

ONLOOKER = MemberHeartbeat((), "upkeep")


async def test_what_was_seen_before_the_last_look_is_no_change(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "rota.db"))
    ours, theirs = DatabaseCoordinator(store), DatabaseCoordinator(store)
    await ours.check_in(ONLOOKER)
    await theirs.configure("log_level", "debug")
    latest = await ours.configuration()
    assert await ours.changed(latest, timedelta(0)) == latest
    await store.close()
