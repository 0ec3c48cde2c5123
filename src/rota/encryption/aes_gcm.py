"""AES-256-GCM, by the package `cryptography`.

Each text has a key of its own, derived by HMAC-SHA256 from the configured key and a random salt. So the number of texts
under one configured key is not limited by the length of GCM's nonce.
"""

from __future__ import annotations

import hmac
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"rota payload v1"


def seal(secret: bytes, text: bytes, associated_data: bytes) -> bytes:
    """Encrypt, and return salt, nonce and ciphertext."""
    head = os.urandom(_SALT_BYTES + _NONCE_BYTES)
    return head + _aes(secret, head).encrypt(head[_SALT_BYTES:], text, associated_data)


def unseal(secret: bytes, data: bytes, associated_data: bytes) -> bytes | None:
    """Decrypt; None if key, text or associated data are not those of the encryption."""
    head, sealed = data[: _SALT_BYTES + _NONCE_BYTES], data[_SALT_BYTES + _NONCE_BYTES :]
    if not sealed:
        return None
    try:
        return _aes(secret, head).decrypt(head[_SALT_BYTES:], sealed, associated_data)
    except InvalidTag:
        return None


def _aes(secret: bytes, head: bytes) -> AESGCM:
    return AESGCM(hmac.digest(secret, _PURPOSE + head[:_SALT_BYTES], "sha256"))
