"""An outage in the log: its beginning, that it lasts, and its end."""

from __future__ import annotations

import logging

import pytest

from rota.core.errors import StoreUnavailable
from rota.telemetry.outage import REPEAT_SECONDS, Outage

LOG = logging.getLogger("rota.test")


def test_repeated_failures_are_logged_once_a_minute_and_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rota.test")
    now = 0.0
    outage = Outage(LOG, "claiming jobs", clock=lambda: now)
    outage.worked()
    for _ in range(100):
        outage.failed(StoreUnavailable("gone"))
    now = REPEAT_SECONDS
    outage.failed(StoreUnavailable("gone"))
    outage.worked()
    outage.worked()
    assert [record.getMessage() for record in caplog.records] == [
        "claiming jobs failed and is repeated until it works: gone",
        "claiming jobs failed and is repeated until it works (101 times in 60 s): gone",
        "claiming jobs works again, after 101 failures in 60 s",
    ]


def test_an_error_of_another_kind_is_logged_at_once_with_where_it_arose(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "pruning", clock=lambda: 0.0)
    outage.failed(StoreUnavailable("gone"), with_traceback=True)
    outage.failed(KeyError("odd"), with_traceback=True)
    assert [record.exc_info is not None for record in caplog.records] == [False, True]
