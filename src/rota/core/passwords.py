"""Passwords of users: how they are hashed (scrypt) and compared, and which are too weak."""

from __future__ import annotations

import hmac
from hashlib import scrypt
from typing import Final

from rota.core.errors import InvalidRequest

SALT_BYTES: Final = 16
SHORTEST: Final = 12
LONGEST: Final = 1_000
_LEAST_DISTINCT: Final = 5
#: The cost of a hash, with its number as the first byte of the digest: about 50 ms and 32 MB.
_VERSION: Final = b"\x01"
_N, _R, _P = 2**15, 8, 1
_MOST_BYTES: Final = 2**26
_HASH_BYTES: Final = 32
#: The digest of a user without a password, who cannot log in with one.
NO_PASSWORD: Final = b"\x00"


def check_password(password: str) -> None:
    """Refuse a password that is easily guessed, or absurdly long."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidRequest(
            f"password: it has {len(password)} characters; use {SHORTEST} to {LONGEST}", field="password"
        )
    if len(set(password)) < _LEAST_DISTINCT:
        raise InvalidRequest(
            f"password: it has fewer than {_LEAST_DISTINCT} different characters; use more", field="password"
        )


def digest_of_password(password: str, salt: bytes) -> bytes:
    """Return what is stored of a password."""
    return _VERSION + salt + _hash(password, salt)


def is_password_of(digest: bytes, password: str) -> bool:
    """Return whether a password belongs to a digest. Takes as long for a user without one, or without a user (b"")."""
    salt = digest[1 : 1 + SALT_BYTES].ljust(SALT_BYTES, b"\0")
    expected = digest[1 + SALT_BYTES :]
    hashed = _hash(password, salt)
    return hmac.compare_digest(hashed, expected) and digest[:1] == _VERSION


def _hash(password: str, salt: bytes) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return scrypt(text, salt=salt, n=_N, r=_R, p=_P, maxmem=_MOST_BYTES, dklen=_HASH_BYTES)
