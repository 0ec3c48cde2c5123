"""Lease tokens: the proof that a worker itself made the claim under which it renews or settles a job.

A job's id and fence can be guessed, or read by callers that may read jobs. So the answer to a claim has an unguessable
token for each lease, and every later request about the lease must repeat it; readers never see it. A fence belongs to
one claim of one process, so the token proves worker and boot as well. It is a keyed hash and is stored nowhere; its key
is derived from the bootstrap token, which all API processes share. A server that needs no token issues none.

A `claim_id` is bound to its caller in the same way: it is stored as a keyed hash of caller, worker, boot and id, so
that nobody else gets the jobs of a claim by repeating it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim

if TYPE_CHECKING:
    from rota.api.http import Request
    from rota.api.settings import ApiSettings

#: Hexadecimal digits: 128 bits.
_LENGTH: Final = 32
#: The boot of a worker that names none, on the older paths.
UNNAMED_BOOT: Final = "http"


def lease_token(settings: ApiSettings, job_id: JobId, fence: int) -> str:
    """Return the token of a lease."""
    return _keyed(settings, b"rota lease", b"%d.%d" % (job_id, fence))


def lease_tokens(request: Request, jobs: Iterable[Job]) -> dict[str, str]:
    """Return the tokens of claimed jobs by their ids; none where the server needs no token."""
    settings = request.context.settings
    return {to_text(job.id): lease_token(settings, job.id, job.fence) for job in jobs} if settings.keys else {}


def holds_lease(request: Request, job_id: JobId, fence: int, token: str | None) -> bool:
    """Return whether a request has the token of the lease that it is about."""
    settings = request.context.settings
    if not settings.keys:
        return True
    return token is not None and hmac.compare_digest(
        token.encode("utf-8", "replace"), lease_token(settings, job_id, fence).encode()
    )


def bound_claim(request: Request, claim: Claim) -> Claim:
    """Bind the id of a claim to its caller and its worker."""
    settings = request.context.settings
    if not settings.keys or claim.claim_id is None:
        return claim
    parts = (request.key.key_scope, claim.worker.name, claim.worker.boot, claim.claim_id)
    text = "\0".join(f"{len(part)} {part}" for part in parts)
    return replace(claim, claim_id=_keyed(settings, b"rota claim", text.encode("utf-8", "replace")))


def _keyed(settings: ApiSettings, purpose: bytes, message: bytes) -> str:
    # Of each namespace its own: clients may choose the ids of jobs, so two namespaces can have the same lease.
    key = hmac.digest(settings.keys[0].digest, purpose + settings.namespace.encode(), sha256)
    return hmac.digest(key, message, sha256).hex()[:_LENGTH]
