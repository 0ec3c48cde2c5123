"""A certificate for the loopback that has signed itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from servers.housing import required


def sign_itself(folder: Path) -> tuple[Path, Path]:
    """Write a certificate and its key into a folder, and give where they are."""
    required(shutil.which("openssl"), "no openssl to make a certificate with: install openssl")
    files = folder / "cert.pem", folder / "key.pem"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names)
    subprocess.run([*words, "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    return files
