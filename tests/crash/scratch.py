"""Folders for files that need no real disk."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

DATABASE: Final = "rota.db"
#: All files of a database but the wal-index, which is not needed once no process has the database open.
SUFFIXES: Final = ("", "-wal", "-journal")


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """Return a folder in memory where there is one: a simulated disk need not wait for a real one."""
    memory = Path("/dev/shm")  # noqa: S108 - only where there is one; the folder itself is ours alone
    folder = Path(tempfile.mkdtemp(prefix="rota-crash-", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def lay_down(image: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder."""
    for name, content in image.items():
        (folder / name).write_bytes(content)


def pick_up(path: Path) -> dict[str, bytes]:
    """Read the files of a database that no process has open."""
    files = [path.with_name(path.name + suffix) for suffix in SUFFIXES]
    return {file.name: file.read_bytes() for file in files if file.exists()}
