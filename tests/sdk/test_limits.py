"""Limits of tasks in code: what cannot be kept is refused, and what is accepted holds for every way to a job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota import Rota
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.sdk.loader import definition_of
from rota.wire.submission import Defaults, Submission, new_job_of, normalized


def export(customer: int = 0) -> int:
    return customer


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"per": ["customer"], "max_running": 2}, "per", "['customer'] will not do: it is not an argument of the function"),
    ({"per": 3}, "per", "its arguments: customer"),
    (
        {"per": "customer", "order": "strict", "max_running": 2},
        "max_running",
        "max_running: '2' will not do: jobs in strict order run one at a time",
    ),
    ({"on_full": "drop", "max_running": 1}, "on_full", "it holds for each value of an argument; name the argument"),
    ({"per": "customer", "on_full": "never"}, "on_full", "it must be one of wait, drop, cancel_oldest"),
    ({"per": "customer", "on_full": "drop", "rate_limit": "1/s"}, "on_full", "full only if max_running is set"),
    ({"per": "customer", "concurrency_key": "k"}, "concurrency_key", "cannot be combined with per='customer'"),
]


@pytest.mark.parametrize(("options", "field", "message"), REFUSED, ids=str)
def test_a_limit_that_cannot_be_kept_is_refused_at_the_decorator(
    options: dict[str, Any], field: str, message: str
) -> None:
    app = Rota("sqlite:///never-opened.db")
    with pytest.raises(InvalidRequest, match="task 'export'") as refused:
        app.task(**options)(export)
    assert message in str(refused.value)
    assert refused.value.field == field
    assert (app.tasks, app.limits) == ({}, [])


def test_strict_order_takes_the_limit_that_it_has_anyway() -> None:
    app = Rota("sqlite:///never-opened.db")
    app.task(per="customer", order="strict", max_running=1)(export)
    assert [limit.per_key_max_running for limit in app.limits] == [1]


def test_a_task_with_a_key_per_argument_cannot_take_its_argument_from_another_job(tmp_path: Path) -> None:
    """The key is made when the job is submitted; without it the limit would not hold."""
    app = Rota(str(tmp_path / "rota.db"))
    task = app.task(per="customer", max_running=1)(export)

    @app.task
    def first() -> int:
        return 7

    with pytest.raises(InvalidRequest, match=r"per: 'customer' comes from .*using\(concurrency_key=") as refused:
        first.call().then(task)
    assert refused.value.field == "per"
    with pytest.raises(InvalidRequest, match="per: 'customer' comes from the job before it"):
        first.using(on_success=task)
    handle = first.call().then(task.using(concurrency_key="account-7")).submit()
    assert handle.nodes()[1].job_id is not None
    app.close()


def test_the_jobs_of_a_schedule_have_the_key_of_the_argument_s_default() -> None:
    app = Rota("sqlite:///never-opened.db")
    app.task(per="customer", max_running=1, every="1h")(export)
    (draft,) = app.recurring
    assert draft.template.concurrency_key == "export:0"


def test_a_task_that_drops_makes_one_job_for_each_value(tmp_path: Path) -> None:
    app = Rota(str(tmp_path / "rota.db"))
    task = app.task(per="customer", on_full="drop")(export)
    with app.run(queues=["other"]):
        first, again, other = task.submit(7), task.submit(7), task.submit(8)
        assert (again.id, again.receipt, other.receipt) == (first.id, "dropped", "created")
    app.close()


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ({"payload": {"customer": 7}}, "export:7"),
        ({"payload": {"args": [7], "kwargs": {}}}, "export:7"),
        ({"payload": {"customer": "7"}}, "export:7"),
        ({"payload": {}}, "export:0"),
        ({}, "export:0"),
        ({"payload": {"customer": 7}, "concurrency_key": "mine"}, "mine"),
        ({"payload": "no arguments"}, None),
        ({"payload": {"rota.encrypted": "v1:k1:AAAA"}}, None),
    ],
    ids=str,
)
def test_a_job_over_http_has_the_key_of_its_argument(sent: dict[str, Any], key: str | None) -> None:
    """It had none: the limit of each value held for jobs from Python only."""
    app = Rota("sqlite:///never-opened.db")
    task = app.task(per="customer", max_running=1)(export)
    defaults = Defaults(tasks=definition_of(app).defaults)
    submission = msgspec.json.decode(msgspec.json.encode({"type": "export", **sent}), type=Submission)
    job = new_job_of(normalized(submission), JobId(1), datetime.now(UTC), defaults=defaults)
    assert job.concurrency_key == key
    assert app.job(task.call(7)).concurrency_key == "export:7"
