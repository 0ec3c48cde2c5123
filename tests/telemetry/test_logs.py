"""One record, one line, and what it is about."""

from __future__ import annotations

import json
import logging
import sys
from datetime import timedelta

import pytest

from core.builders import ERROR, NOW, job
from rota.core.cluster import Leadership
from rota.core.ids import to_text
from rota.core.lifecycle import Event as Move
from rota.core.settlement import JobError, Reason
from rota.telemetry.events import Event, JobsSettled, LeaderChanged, LeasesLapsed
from rota.telemetry.log_events import EventLogger
from rota.telemetry.logs import Fields, JsonLines, TextLines, about

ONE = job(type="mail", worker="ada", attempts=2)
NAME = to_text(ONE.id)


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("rota.worker", logging.WARNING, __file__, 1, message, (), None)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_line_for_machines_says_what_it_is_about() -> None:
    answer = json.loads(JsonLines().format(record("late", **about(ONE))))
    assert answer.pop("time").endswith("+00:00")
    assert answer == {
        "level": "warning", "logger": "rota.worker", "message": "late",
        "job_id": NAME, "job_type": "mail", "attempt": 2, "worker": "ada",
    }  # fmt: skip


def test_a_line_for_people_says_it_at_its_end() -> None:
    line = TextLines().format(record("late", **about(ONE)))
    assert line.endswith(f"Z warning rota.worker: late [job_id={NAME} job_type=mail attempt=2 worker=ada]")
    assert TextLines().format(record("late")).endswith("rota.worker: late")


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_nobody_can_forge_a_line(formatter: logging.Formatter) -> None:
    line = formatter.format(record("a\nb\x1b[31m", job_id=NAME, job_type="c\nd", attempt=1, worker="e\rf"))
    assert line.isprintable()


def test_a_traceback_goes_along() -> None:
    made = record("oops")
    try:
        raise OSError("no")
    except OSError:
        made.exc_info = sys.exc_info()
    assert "OSError: no" in json.loads(JsonLines().format(made))["traceback"]
    assert TextLines().format(made).endswith("OSError: no")


def test_surroundings_fill_in_only_what_a_record_does_not_say() -> None:
    fields = Fields(lambda: {"job_id": "outer", "worker": "outer"})
    own, plain = record("own", job_id="own"), record("plain")
    assert fields.filter(own)
    assert fields.filter(plain)
    assert (own.__dict__["job_id"], plain.__dict__["job_id"]) == ("own", "outer")


@pytest.mark.parametrize(
    ("event", "level", "said"),
    [
        (
            JobsSettled([ONE], [ONE.settled(Move.FAIL, error=ERROR, run_at=NOW + timedelta(seconds=1))], 0.1),
            "INFO",
            f"job {NAME} failed with OSError in attempt 2 of 3 and will be tried again",
        ),
        (
            JobsSettled([ONE], [ONE.settled(Move.EXHAUST, error=ERROR, reason=Reason.PERMANENT)], 0.1),
            "WARNING",
            f"job {NAME} is dead with OSError after attempt 2 of 3 (permanent)",
        ),
        (LeasesLapsed([ONE]), "WARNING", f"job {NAME} was taken from a worker that did not renew its lease"),
        (LeaderChanged(Leadership("scheduler", "ada", 3, NOW)), "INFO", "ada leads, in term 3"),
    ],
)
def test_the_event_log_notes_what_did_not_simply_succeed(
    caplog: pytest.LogCaptureFixture, event: Event, level: str, said: str
) -> None:
    with caplog.at_level(logging.INFO, logger="rota.jobs"):
        EventLogger().on_event(event)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [(level, said)]


def test_the_event_log_leaves_out_successes_and_error_messages(caplog: pytest.LogCaptureFixture) -> None:
    canary = JobError("OSError", "password=canary")
    with caplog.at_level(logging.DEBUG, logger="rota.jobs"):
        EventLogger().on_event(JobsSettled([ONE], [ONE.settled(Move.SUCCEED)], 0.1))
        assert not caplog.records
        EventLogger().on_event(JobsSettled([ONE], [ONE.settled(Move.EXHAUST, error=canary)], 0.1))
    assert "canary" not in caplog.text
