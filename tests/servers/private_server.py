"""Helpers for private servers: free ports, cleanup when the test process ends, skipping when one is missing."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Find unused ports of the loopback, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def free_port() -> int:
    """Find an unused port of the loopback."""
    return free_ports(1)[0]


def clean_up_at_exit(folder: Path, end: str) -> subprocess.Popen[bytes]:
    """Start a shell that waits for the end of this process, runs `end` and deletes the folder, its `$0`."""
    script = f'read -r _; {end}; rm -rf "$0"'
    return subprocess.Popen(
        ["sh", "-c", script, folder], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def required(found: T | None, missing: str) -> T:
    """Return what was found; skip the test without it, or fail it where a skip would be overlooked."""
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found
