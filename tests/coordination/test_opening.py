"""Which coordinator a setting names."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rota.coordination.database import DatabaseCoordinator
from rota.coordination.etcd import EtcdCoordinator
from rota.coordination.local import LocalCoordinator
from rota.core.errors import InvalidRequest
from rota.ports.coordinator import Coordinator
from rota.ports.store import Store
from rota.runtime.assembly import build_membership
from rota.runtime.coordinator import open_coordinator
from rota.settings import Settings
from rota.stores.sqlite import SqliteStore


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await SqliteStore.open(":memory:")
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("", DatabaseCoordinator),
        ("store", DatabaseCoordinator),
        ("local", LocalCoordinator),
        ("localhost:2379", EtcdCoordinator),
        ("etcd://user:password@localhost", EtcdCoordinator),
    ],
)
async def test_a_setting_names_a_coordinator(url: str, kind: type[Coordinator], store: Store) -> None:
    coordinator = open_coordinator(url, store)
    assert coordinator is not None
    assert isinstance(coordinator, kind)
    await coordinator.close()


def test_a_process_without_a_store_has_none_unless_it_is_named() -> None:
    assert build_membership(Settings(), None, []) is None
    with pytest.raises(InvalidRequest, match="name an etcd"):
        open_coordinator("store", None)


@pytest.mark.parametrize(("url", "warnings"), [("etcd://user:s3cret@db", 1), ("etcds://user:s3cret@db", 0)])
async def test_what_travels_in_the_open_is_warned_about_without_saying_the_password(
    url: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        coordinator = open_coordinator(url, None)
    assert coordinator is not None
    await coordinator.close()
    assert len(caplog.records) == warnings
    assert "s3cret" not in caplog.text
