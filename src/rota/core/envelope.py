"""Envelopes: encrypted text in the form in which it is stored and sent.

An envelope is JSON with one name, ``{"rota.encrypted": [key, field, bound_to, digest, data]}``: the id of the key, what
the text is (payload, result, error …), the job or job type it belongs to, a keyed digest by which equal texts can be
grouped (or nothing), and nonce and ciphertext in base64. The first four are authenticated with the text: an envelope
that was moved to another job or field cannot be decrypted there.
"""

from __future__ import annotations

import json
from typing import Final

from rota.core.errors import DecryptionFailed
from rota.core.ids import JobId, to_text
from rota.core.value import value

MARK: Final = '"rota.encrypted"'
#: Where the mark may stand: after the brace, and blanks that another JSON writer put there.
_HEAD: Final = 24
_PARTS: Final = 5


@value
class Envelope:
    """Encrypted text, and what it says about itself."""

    key: str
    field: str
    bound_to: str
    digest: str
    data: str

    @property
    def associated_data(self) -> bytes:
        """What is authenticated together with the text."""
        return json.dumps([self.key, self.field, self.bound_to, self.digest]).encode()

    def to_text(self) -> str:
        parts = [self.key, self.field, self.bound_to, self.digest, self.data]
        return f"{{{MARK}:{json.dumps(parts, separators=(',', ':'))}}}"

    def __str__(self) -> str:
        return f"encrypted (key {self.key})"


def is_encrypted(text: str) -> bool:
    """Return whether a stored text is an envelope."""
    return MARK in text[:_HEAD]


def envelope_of(text: str) -> Envelope:
    """Read an envelope; raise `DecryptionFailed` if it is damaged."""
    try:
        parts = json.loads(text)[MARK[1:-1]]
    except (ValueError, RecursionError, LookupError, TypeError):
        parts = None
    if not isinstance(parts, list) or len(parts) != _PARTS or not all(isinstance(part, str) for part in parts):
        raise DecryptionFailed("an encrypted text is damaged: it is not an envelope with five parts")
    return Envelope(*parts)


def digest_of(text: str) -> str:
    """Return the digest in an envelope; nothing if it is damaged."""
    try:
        return envelope_of(text).digest
    except DecryptionFailed:
        return ""


def bound_to_job(job_id: JobId) -> str:
    return to_text(job_id)


def bound_to_type(job_type: str) -> str:
    """Return the binding of a payload whose job does not exist yet: of a follow-up job or a schedule."""
    return f"type {job_type}"
