"""Bugs between a caller and the store: in the client, in the API."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch

from rota.client import client as client_module
from rota.core.errors import RotaError
from rota.core.lease import Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.store import Inserted, Receipt
from simulation.mutants.planting import Planting, instead, mutant
from simulation.variants import HTTP


@mutant("I2", HTTP, first=3)
def repeated_request_has_no_key() -> Planting:
    """The client sends a submission again, elsewhere, with nothing to recognise it by."""
    with patch.object(client_module, "_keyed", lambda job: job):
        yield


@mutant("I1", HTTP)
def answered_before_it_is_stored() -> Planting:
    """The API answers at once and stores when it comes to it."""

    async def submit(right: Any, engine: Engine, jobs: Sequence[NewJob]) -> list[Inserted]:
        async def later() -> None:
            with suppress(RotaError):
                await right(engine, jobs)

        asyncio.create_task(later())  # noqa: RUF006 - the process keeps its tasks
        return [Inserted(job.id, Receipt.CREATED, State.PENDING) for job in jobs]

    with instead(Engine, "submit", submit):
        yield


@mutant("G4", HTTP, first=4)
def renewals_not_passed_on() -> Planting:
    """The API accepts every renewal, and does not pass it on."""

    async def renew(right: Any, engine: Engine, renewals: Sequence[Renewal]) -> list[Renewed]:
        del right
        until = engine.clock()
        return [Renewed(one.job_id, one.fence, until + one.lease, cancel=False) for one in renewals]

    with instead(Engine, "renew", renew):
        yield
