"""Payloads of encrypted jobs, decrypted before their handlers start.

A job whose key this worker does not have is not lost and not counted as an attempt: it is offered again after a while,
to this worker or one that has the key. A payload that was changed or moved cannot become readable by waiting: the job
is dead at once, and can be retried from the dead letters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rota.core.envelope import envelope_of
from rota.core.errors import DecryptionFailed, KeyMissing
from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Snoozed
from rota.core.settlement import JobError
from rota.telemetry.logs import about

if TYPE_CHECKING:
    from rota.encryption import Cipher

_log = logging.getLogger("rota.worker")
#: After which time a job is offered again whose key is missing.
KEY_DELAY: Final = timedelta(seconds=30)
_LOG_SECONDS: Final = 60.0


class PayloadReader:
    """Decrypts payloads, or returns the outcome of a job that cannot be decrypted."""

    def __init__(self, cipher: Cipher | None, clock: Callable[[], float]) -> None:
        self._cipher = cipher
        self._clock = clock
        self._logged_at = -_LOG_SECONDS

    def read(self, job: Job) -> Job | Outcome:
        """Return the job with its payload decrypted, or the outcome of an attempt that cannot start."""
        try:
            if self._cipher is None:
                key = envelope_of(job.payload).key
                raise KeyMissing(
                    f"its payload is encrypted with the key {key!r}, and this worker has no keys; set encryption_keys"
                    " (ROTA_ENCRYPTION_KEYS)"
                )
            return replace(job, payload=self._cipher.decrypt_payload(job))
        except KeyMissing as error:
            self._log_missing(job, error)
            return Snoozed(KEY_DELAY, started=False)
        except DecryptionFailed as error:
            _log.error("%s cannot start: %s", job.name, error, extra=about(job))
            return Failed(JobError("DecryptionFailed", str(error)), permanent=True)

    def _log_missing(self, job: Job, error: KeyMissing) -> None:
        """Log once a minute: many jobs may need the same key."""
        if self._clock() - self._logged_at >= _LOG_SECONDS:
            self._logged_at = self._clock()
            seconds = KEY_DELAY.total_seconds()
            _log.error("%s cannot start and is offered again in %g s: %s", job.name, seconds, error, extra=about(job))
