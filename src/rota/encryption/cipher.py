"""The cipher: encrypts and decrypts single texts with the keys of a provider."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence
from typing import Any, Final

from rota.core.envelope import MARK, Envelope, bound_to_job, bound_to_type, envelope_of, is_encrypted
from rota.core.errors import DecryptionFailed, InvalidRequest, KeyMissing
from rota.core.ids import JobId
from rota.core.job import Job
from rota.encryption.keys import Key, KeyProvider

try:
    from rota.encryption import aes_gcm
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "cryptography":
        raise
    raise InvalidRequest(
        "encryption_keys: the package cryptography is needed and not installed; pip install 'rota[encryption]'",
        field="encryption_keys",
    ) from None

PAYLOAD: Final = "payload"
RESULT: Final = "result"
_DIGEST_PURPOSE: Final = b"rota digest v1\0"
_DIGEST_BYTES: Final = 16


class Cipher:
    """Makes envelopes and opens them."""

    def __init__(self, provider: KeyProvider) -> None:
        self._provider = provider

    @property
    def keys(self) -> Sequence[Key]:
        return self._provider.keys()

    def encrypt(self, text: str, field: str, bound_to: str, *, digest: str = "") -> str:
        """Encrypt a text with the first key."""
        key = self.keys[0]
        head = Envelope(key.id, field, bound_to, digest, "")
        sealed = aes_gcm.seal(key.secret, text.encode("utf-8", "surrogatepass"), head.associated_data)
        return Envelope(key.id, field, bound_to, digest, base64.b64encode(sealed).decode()).to_text()

    def decrypt(self, text: str, field: str, bound_to: Sequence[str] | None) -> str:
        """Decrypt an envelope of a field; `bound_to` lists what it may belong to, None if the caller cannot know.

        Raises `KeyMissing` if its key is not configured here, and `DecryptionFailed` if it was changed, belongs
        elsewhere, or was made with another key of this name.
        """
        envelope = envelope_of(text)
        key = next((one for one in self.keys if one.id == envelope.key), None)
        if key is None:
            raise missing_key(envelope)
        is_here = envelope.field == field and (bound_to is None or envelope.bound_to in bound_to)
        opened = _unsealed(key, envelope) if is_here else None
        if opened is None:
            why = (
                "it was changed, or its key has the same name as ours and another value" if is_here else "it was moved"
            )
            raise DecryptionFailed(
                f"an encrypted {field} (key {envelope.key}) cannot be decrypted: {why}; compare the keys of the process"
                " that wrote it with those here"
            )
        return opened.decode("utf-8", "surrogatepass")

    def decrypt_payload(self, job: Job) -> str:
        return self.decrypt(job.payload, PAYLOAD, (bound_to_job(job.id), bound_to_type(job.type)))

    def decrypt_result(self, text: str, job_id: JobId) -> str:
        return self.decrypt(text, RESULT, (bound_to_job(job_id),))

    def digest(self, text: bytes, key: Key | None = None) -> bytes:
        """Return a keyed hash: equal for equal texts, and useless for guessing them without the key."""
        secret = (key or self.keys[0]).secret
        return hmac.digest(secret, _DIGEST_PURPOSE + text, "sha256")[:_DIGEST_BYTES]


def opened_within(cipher: Cipher, value: Any, *, keep_unreadable: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Decrypt every envelope within a JSON value: as an object it stands for JSON, as a string for text.

    What they are bound to is not checked. With `keep_unreadable`, an envelope that cannot be opened is left as it is.
    """
    match value:
        case dict() if len(value) == 1 and MARK[1:-1] in value:
            text = _opened(cipher, json.dumps(value), keep_unreadable=keep_unreadable)
            return json.loads(text)
        case dict():
            return {name: opened_within(cipher, one, keep_unreadable=keep_unreadable) for name, one in value.items()}
        case list():
            return [opened_within(cipher, one, keep_unreadable=keep_unreadable) for one in value]
        case str() if is_encrypted(value):
            return _opened(cipher, value, keep_unreadable=keep_unreadable)
        case _:
            return value


def _opened(cipher: Cipher, text: str, *, keep_unreadable: bool) -> str:
    try:
        return cipher.decrypt(text, envelope_of(text).field, None)
    except (KeyMissing, DecryptionFailed):
        if keep_unreadable:
            return text
        raise


def _unsealed(key: Key, envelope: Envelope) -> bytes | None:
    try:
        data = base64.b64decode(envelope.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return aes_gcm.unseal(key.secret, data, envelope.associated_data)


def missing_key(envelope: Envelope) -> KeyMissing:
    """Make the error for a key that this process does not have."""
    return KeyMissing(
        f"an encrypted {envelope.field} needs the key {envelope.key!r}, which is not configured here; add it to"
        " encryption_keys (ROTA_ENCRYPTION_KEYS)"
    )
