"""Webhooks: addresses that are notified of events, and the messages that are sent to them.

A message is a CloudEvents 1.0 event in JSON, signed as the Standard Webhooks specification requires: HMAC-SHA256 over
id, time and body. It is thin: it names what happened and to what, and has no payload, result or error message.
"""

from __future__ import annotations

import base64
import hmac
import json
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from rota.core.errors import InvalidRequest
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.retry import Backoff, Growth
from rota.core.settlement import Settlement
from rota.core.value import value

#: The queue and the type of the jobs that deliver messages. Types that begin with `rota.` are Rota's own.
QUEUE: Final = "rota.webhooks"
TYPE: Final = "rota.webhook"
#: The events that a webhook can subscribe to, with their descriptions.
EVENTS: Final = {
    "job.completed": "a job has succeeded",
    "job.dead": "a job is dead",
    "job.cancelled": "a job was cancelled by an operator, by its worker, or because it expired",
    "schedule.missed": "fire times of a schedule were missed and skipped",
    "queue.paused": "a queue was paused",
    "queue.resumed": "a queue was resumed",
}
TEST_EVENT: Final = "webhook.test"
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how every secret begins
SECRET_BYTES: Final = 32
#: The waits between attempts: about three and a half days together.
DELAYS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 86400, 43200)
)
BACKOFF: Final = Backoff(growth=Growth.LISTED, delays=DELAYS, jitter=0.2)
MAX_ATTEMPTS: Final = len(DELAYS) + 1
#: How long a receiver can put a message off by Retry-After.
LONGEST: Final = timedelta(days=4)
_LONGEST_URL: Final = 2000
_OF_STATE: Final = {
    State.COMPLETED: "job.completed",
    State.DEAD: "job.dead",
    State.CANCELLED: "job.cancelled",
}


@value
class Webhook:
    """An address that is notified of events; of all jobs, or of the jobs of some queues."""

    id: str
    name: str
    url: str
    events: tuple[str, ...]
    secret: str
    created_at: datetime
    queues: tuple[str, ...] = ()
    #: The secret before the last rotation, with which messages are signed as well until a time.
    old_secret: str = ""
    old_until: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str = ""
    removed_at: datetime | None = None
    version: int = 0

    def __repr__(self) -> str:
        # Without the secrets.
        return f"<Webhook {self.name}>"

    @property
    def is_active(self) -> bool:
        return self.disabled_at is None and self.removed_at is None

    def wants(self, event: str, queue: str | None = None) -> bool:
        """Return whether it subscribes to an event of this queue, if the event has one."""
        return event in self.events and (queue is None or not self.queues or queue in self.queues)

    def secrets_at(self, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign a message sent now."""
        has_old = self.old_secret and self.old_until is not None and now < self.old_until
        return (self.secret, self.old_secret) if has_old else (self.secret,)


def check_webhook(url: str, events: tuple[str, ...]) -> None:
    """Refuse an address that cannot be sent to, and unknown events."""
    try:
        parts = urlsplit(url)
        problem = _problem_of(url, parts.scheme, parts.hostname, parts.port, has_user="@" in parts.netloc)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise InvalidRequest(f"url: {problem}", field="url")
    for event in events:
        if event not in EVENTS:
            raise InvalidRequest(f"events: {event!r} is unknown; there are {', '.join(EVENTS)}", field="events")
    if not events:
        raise InvalidRequest(f"events: name at least one of {', '.join(EVENTS)}", field="events")


def _problem_of(url: str, scheme: str, host: str | None, port: int | None, *, has_user: bool) -> str:
    if scheme not in {"http", "https"} or not host:
        return "must be an address that begins with https:// or http://"
    if has_user:
        return "must not contain a password; the signature tells the receiver who sends"
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be at most {_LONGEST_URL} printable ASCII characters without blanks"
    return "port 0 cannot be reached" if port == 0 else ""


def event_of(settlement: Settlement) -> str | None:
    """Return the event of a settlement; None if the job has not ended."""
    return _OF_STATE.get(settlement.target)


def job_message(job: Job, settlement: Settlement, now: datetime) -> dict[str, Any]:
    """Make the message about the end of a job. Its id is the same however often it is sent."""
    data: dict[str, Any] = {
        "id": to_text(job.id),
        "type": job.type,
        "queue": job.queue,
        "state": settlement.target.value,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "tags": list(job.tags[:20]),
    }
    if settlement.reason is not None:
        data["reason"] = settlement.reason.value
    if settlement.error is not None:
        data["error"] = {"kind": settlement.error.kind[:200]}
    if job.schedule_id is not None:
        data["schedule_id"] = to_text(job.schedule_id)
    number = f"{to_text(job.id)}-{settlement.fence}-{settlement.target.value}"
    return message_of(_OF_STATE[settlement.target], number, to_text(job.id), data, now)


def message_of(event: str, number: str, subject: str, data: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Make a CloudEvents message."""
    return {
        "specversion": "1.0",
        "id": number,
        "source": "rota",
        "type": event,
        "subject": subject,
        "time": now.isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": data,
    }


def body_of(message: dict[str, Any]) -> bytes:
    """Write a message as it is sent and signed: the same bytes in every attempt."""
    return json.dumps(message, separators=(",", ":"), sort_keys=True).encode()


def new_secret(random: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(random).decode()


def signature_of(secrets: tuple[str, ...], number: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: one signature for each secret."""
    signed = f"{number}.{timestamp}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in secrets]
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)
