"""Stores without limits refuse them, by an error that says so."""

from __future__ import annotations

import pytest

from building import new_job
from conformance.stores.adapters import MODEL, STORES, Adapter
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import InvalidRequest
from rota.core.limit import Limit
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Store


@pytest.fixture(params=[*(one for one in STORES if not one.name.startswith("sqlite")), MODEL], ids=lambda one: one.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    chosen: Adapter = request.param
    return chosen


async def test_a_key_and_a_limit_are_refused(store: Store) -> None:
    engine = Engine(store, InStoreBroker(store))
    with pytest.raises(InvalidRequest, match="concurrency_key: this store enforces no limits"):
        await engine.submit([new_job(concurrency_key="a")])
    with pytest.raises(InvalidRequest, match="this store enforces no limits"):
        await engine.limits.put(Limit("queue:default", 1), Actor("olga"))
