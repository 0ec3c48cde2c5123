from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import timedelta

import pytest

from rota.core.ids import JobId
from rota.core.lease import DEFAULT_LEASE, Claim, Renewal, WorkerId

ADA = WorkerId("ada", "boot-1")


def test_a_lease_lasts_fifteen_seconds_unless_told_otherwise() -> None:
    assert timedelta(seconds=15) == DEFAULT_LEASE
    assert Claim(ADA, limit=1).lease == Renewal(JobId(1), fence=1).lease == DEFAULT_LEASE


def test_a_reused_name_is_not_the_same_worker() -> None:
    assert WorkerId("ada", "boot-1") == ADA
    assert WorkerId("ada", "boot-2") != ADA
    assert len({ADA, WorkerId("ada", "boot-1"), WorkerId("ada", "boot-2")}) == 2


def test_a_claim_asks_for_every_type_of_the_default_queue_and_is_not_repeatable_by_itself() -> None:
    claim = Claim(ADA, limit=5)
    assert (claim.queues, claim.types, claim.claim_id, claim.ids) == (("default",), None, None, None)


@pytest.mark.parametrize("value", [ADA, Claim(ADA, limit=1), Renewal(JobId(1), fence=1)])
def test_what_was_asked_cannot_change_on_the_way(value: WorkerId | Claim | Renewal) -> None:
    first = next(iter(fields(value)))
    with pytest.raises(FrozenInstanceError):
        setattr(value, first.name, "another")
