"""A certificate for the loopback that has signed itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from servers.private_server import required


def sign_itself(folder: Path) -> tuple[Path, Path]:
    """Write a certificate and its key into a folder, and give where they are."""
    required(shutil.which("openssl"), "no openssl to make a certificate with: install openssl")
    files = folder / "cert.pem", folder / "key.pem"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names)
    subprocess.run([*words, "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    return files


class Authority:
    """A private certificate authority, in a folder of its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        required(shutil.which("openssl"), "no openssl to make a certificate with: install openssl")
        self._folder = folder
        self.cert, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl(
            "req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.cert
        )

    def sign(self, name: str, *, days: int = 2, valid_for: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """Write a certificate for the loopback and its key, and give where they are; with `days=-1` it has expired."""
        cert, key, request, extensions = (
            self._folder / f"{name}.{kind}" for kind in ("pem", "key", "csr", "extensions")
        )
        extensions.write_text(f"subjectAltName={valid_for}\n", encoding="utf-8")
        _openssl("req", *_NEW_KEY, "-new", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        authority = ("-CA", self.cert, "-CAkey", self._key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *authority, "-days", str(days), "-extfile", extensions, "-out", cert)
        return cert, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
