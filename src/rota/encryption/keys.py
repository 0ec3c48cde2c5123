"""Encryption keys: from the setting itself, from a file, or from a program's own provider.

The first key encrypts; all of them decrypt. To rotate: add the new key as the second one everywhere, then put it first
everywhere, and remove the old one when no job with it is left. A file is read again when it changes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from rota.core.errors import InvalidRequest
from rota.core.value import value

KEY_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_FIELD: Final = "encryption_keys"
_REMEDY: Final = "write name=key, with 32 random bytes in base64, as `openssl rand -base64 32` prints them"


@value
class Key:
    """A key of 32 bytes and the name that envelopes carry."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<Key {self.id}>"


class KeyProvider(Protocol):
    """Where a process gets its keys. Called for each text, from any thread: an implementation caches."""

    def keys(self) -> Sequence[Key]:
        """Return all keys, at least one; the first one encrypts."""
        ...


class ListedKeys:
    """Keys that stay the same while the process runs."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys)

    def keys(self) -> Sequence[Key]:
        return self._keys


class FileKeys:
    """Keys of a file, one on each line; read again when the file changes.

    A file that cannot be read, or has no valid keys, while the process runs leaves the former keys in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._now_stamp()
        self._keys = self._read()

    def keys(self) -> Sequence[Key]:
        stamp = self._now_stamp()
        if stamp is not None and stamp != self._stamp:
            # Half written, perhaps: then it is looked at again the next time.
            with suppress(InvalidRequest):
                self._keys = self._read()
                self._stamp = stamp
        return self._keys

    def _now_stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> tuple[Key, ...]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InvalidRequest(f"{_FIELD}: {self._path} cannot be read: {reason}", field=_FIELD) from None
        lines = [line.strip() for line in text.splitlines()]
        return keys_of([line for line in lines if line and not line.startswith("#")], str(self._path))


def keys_of(entries: Sequence[str], origin: str) -> tuple[Key, ...]:
    """Read keys, each `name=base64`; a message never shows a key."""
    keys = tuple(_key_of(entry, number, origin) for number, entry in enumerate(entries, 1))
    if not keys:
        raise InvalidRequest(f"{_FIELD}: {origin} has no key; {_REMEDY}", field=_FIELD)
    names = [key.id for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"{_FIELD}: {origin} has two keys named {name!r}; rename one", field=_FIELD)
    return keys


def _key_of(entry: str, number: int, origin: str) -> Key:
    name, separator, text = entry.partition("=")
    try:
        secret = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not separator or not _NAME.fullmatch(name.strip()) or len(secret) != KEY_BYTES:
        raise InvalidRequest(f"{_FIELD}: entry {number} of {origin} is not a key; {_REMEDY}", field=_FIELD)
    return Key(name.strip(), secret)


def provider_of(setting: str, resolve: Callable[[str], object]) -> KeyProvider:
    """Open the keys that a setting names: `file:PATH`, `python:module:name`, or the keys themselves.

    `resolve` imports the object of a reference; calling it gives a `KeyProvider`.
    """
    if setting.startswith("file:"):
        return FileKeys(Path(setting.removeprefix("file:")))
    if setting.startswith("python:"):
        return _custom(setting.removeprefix("python:"), resolve)
    return ListedKeys(keys_of([part.strip() for part in setting.split(",") if part.strip()], "the setting"))


def _custom(reference: str, resolve: Callable[[str], object]) -> KeyProvider:
    try:
        factory = resolve(reference)
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(f"{_FIELD}: {reference!r} cannot be imported: {error}", field=_FIELD) from None
    provider = factory() if callable(factory) else factory
    if not hasattr(provider, "keys"):
        raise InvalidRequest(
            f"{_FIELD}: {reference!r} gives no key provider; it needs a method keys() that returns rota.encryption.Key",
            field=_FIELD,
        )
    given: KeyProvider = provider
    return given
