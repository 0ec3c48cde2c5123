"""The check of `rota submit --dry-run`: the server's own, without a server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from rota.api.errors import http_error_of, invalid
from rota.api.json_body import decode_checked
from rota.cli.api_client import refusal_of
from rota.core.errors import RotaError
from rota.core.ids import JobId
from rota.core.schedule import rule_of, zone_of
from rota.core.submission import check
from rota.wire.submission import Submission, new_job_of, normalized, template_of

_NO_ID = JobId(0)


def check_submission(body: Any, *, in_batch: bool = False) -> None:  # noqa: ANN401 - any JSON
    """Refuse what the server would always refuse; checks against its tasks, queues and jobs are left to the server."""
    try:
        submission = normalized(decode_checked(json.dumps(body).encode(), Submission))
        if submission.cron is None:
            check(new_job_of(submission, _NO_ID, datetime.now(UTC)))
            return
        if in_batch:
            raise invalid([("cron", "schedules are created one by one: rota submit --cron")])
        rule_of(submission.cron)
        zone_of(submission.zone or "UTC")
        check(template_of(submission))
    except RotaError as error:
        refusal = http_error_of(error)
        raise refusal_of(refusal.status, msgspec.to_builtins(refusal.problem())) from None
