"""Encryption of payloads, results, errors, progress, logs and steps by clients and workers.

The API and the store see envelopes only (`rota.core.envelope`). `keys` reads keys, `cipher` encrypts one text, `jobs`
encrypts what is submitted and decrypts what is read, `worker` does the same for a worker.
"""

from __future__ import annotations

from rota.encryption.cipher import Cipher
from rota.encryption.keys import Key, KeyProvider

__all__ = ["Cipher", "Key", "KeyProvider"]
