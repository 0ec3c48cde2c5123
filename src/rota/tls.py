"""TLS contexts of servers and clients, from PEM files that the settings name.

TLS 1.2 is the oldest version on both sides. A file that is missing, unreadable, not PEM, or does not fit the others is
refused with the name of its setting when the context is made, before anything listens or connects.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from rota.core.errors import InvalidRequest

T = TypeVar("T")
_OTHERS_READ: Final = stat.S_IROTH
_log = logging.getLogger("rota")


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Files of a server: its certificate with its chain, the key, and the authority of client certificates."""

    cert: str
    #: Empty if the key is in the file of the certificate.
    key: str = ""
    #: With it, every client must present a certificate of this authority.
    client_ca: str = ""

    @property
    def versions(self) -> tuple[tuple[int, int], ...]:
        """Inode and time of change of each file, which differ after a file was replaced."""
        stats = [os.stat(path) for path in (self.cert, self.key, self.client_ca) if path]  # noqa: PTH116 - three calls
        return tuple((one.st_ino, one.st_mtime_ns) for one in stats)

    def context(self) -> ssl.SSLContext:
        """Make the context of new connections."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        _load_pair(context, ("tls_cert", self.cert), ("tls_key", self.key))
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            _load_authority(context, "tls_client_ca", self.client_ca)
        return context


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """Files of a client: the authority that it trusts, and its own certificate with its key."""

    #: Without it, the usual public authorities are trusted.
    ca: str = ""
    cert: str = ""
    key: str = ""

    def context(self, default: Callable[[], ssl.SSLContext] = ssl.create_default_context) -> ssl.SSLContext:
        """Make the context of a client's connections; without an authority, `default` makes it."""
        if self.ca:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            _load_authority(context, "ca_file", self.ca)
        else:
            context = default()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.cert:
            _load_pair(context, ("client_cert", self.cert), ("client_key", self.key))
        return context


NO_FILES: Final = ClientFiles()


def _load_pair(context: ssl.SSLContext, cert: tuple[str, str], key: tuple[str, str]) -> None:
    """Load a certificate and its key; the key may be in the file of the certificate."""
    (cert_field, cert_path), (key_field, key_path) = cert, key
    for field, path in (cert, key):
        if path:
            _require_readable(field, path)
    private = (key_field, key_path) if key_path else cert
    _warn_if_others_read(*private)

    def passphrase() -> NoReturn:
        _refuse(*private, "the key is encrypted; store it without a passphrase, readable by this user only")

    try:
        context.load_cert_chain(cert_path, key_path or None, passphrase)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "MISMATCH" in reason:
            _refuse(*private, f"it is not the key of the certificate in {cert_path!r}")
        if not key_path:
            _refuse(cert_field, cert_path, f"it has no PEM certificate with its key; name the key in {key_field!r}")
        what = f"or {cert_field} {cert_path!r} is no PEM certificate"
        _refuse(*private, f"it is no PEM key, {what}{f' ({reason})' if reason else ''}")


def _load_authority(context: ssl.SSLContext, field: str, path: str) -> None:
    _require_readable(field, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        _refuse(field, path, f"it has no PEM certificate ({error.reason or error})")


def _require_readable(field: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        _refuse(field, path, f"it cannot be read: {error.strerror or error}")


def _warn_if_others_read(field: str, path: str) -> None:
    if Path(path).stat().st_mode & _OTHERS_READ:
        _log.warning("%s: every user of this machine can read the key in %s; chmod 600 it", field, path)


def _refuse(field: str, path: str, why: str) -> NoReturn:
    raise InvalidRequest(f"{field}: {path!r} is not usable: {why}", field=field)
