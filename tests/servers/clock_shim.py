"""A wall clock that tests can set, for real servers and processes: a library in C that is loaded with LD_PRELOAD."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servers.private_server import required

MISSING: Final = "no C compiler: install Debian's gcc and libc6-dev (tools/servers does, as root or with sudo)"
_SOURCE: Final = Path(__file__).with_name("clock_shim.c")


@dataclass(frozen=True, slots=True)
class ClockShim:
    """The clock of the programs that are started with `environment`."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.folder / "clock_shim.so"), "ROTA_CLOCK_SHIM": str(self.folder / "offset")}

    def set_ahead(self, seconds: float) -> None:
        """Set the clock so far ahead of the machine's, at once for all programs; back if it is less than nothing."""
        # In place, eight bytes at once: the programs have the file mapped.
        descriptor = os.open(self.folder / "offset", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(descriptor, struct.pack("q", int(seconds * 1_000_000)))
        os.close(descriptor)


@contextmanager
def clock_shim() -> Iterator[ClockShim]:
    """Compile the library into a folder that every user may read, as servers run as another one."""
    compiler = required(shutil.which("cc") or shutil.which("gcc"), MISSING)
    with tempfile.TemporaryDirectory(prefix="rota-clock-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        library = folder / "clock_shim.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
        library.chmod(0o755)
        shim = ClockShim(folder)
        shim.set_ahead(0)
        yield shim
