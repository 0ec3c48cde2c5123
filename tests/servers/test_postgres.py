"""The PostgreSQL that tests start, where the user that runs it cannot read the installed programs."""

from __future__ import annotations

import shutil
from pathlib import Path

from servers.postgres import HASTY, PostgresServer, require_binaries


def test_a_server_starts_from_a_directory_that_only_its_owner_can_read(tmp_path: Path) -> None:
    """Root's home directory has mode 0700, and PostgreSQL refuses to run as root: the programs must be copied."""
    binaries = require_binaries()
    closed = tmp_path / "a closed directory"
    closed.mkdir(mode=0o700)
    package = binaries.parent.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, closed / part.name, symlinks=True)
    server = PostgresServer(closed / package.name / "pginstall" / "bin", HASTY)
    try:
        assert server.process is not None
        assert server.process.poll() is None
    finally:
        server.remove()
