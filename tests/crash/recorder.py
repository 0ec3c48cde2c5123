"""A SQLite VFS that records all writes and syncs, so that a power cut can be simulated afterwards at any moment.

The files themselves are real and are written through, without their syncs; what SQLite reads is what it wrote. The tape
holds, in one order, every write, truncation, sync, creation and deletion, and between them what the store told its
client. Played up to any place, it gives the disk as it was at that moment (`simulated_disk`) and the promises that
stood.

SQLite's own VFS syncs the folder at the first sync of a journal or write-ahead log that it opened to create (seen with
strace, and in unixSync of os_unix.c), and after a deletion only where asked. So does this one. The database file itself
is created without a sync of the folder; its name becomes safe with the first journal's.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import apsw

from crash.acknowledgements import Line
from crash.simulated_disk import Folder, Platter, Truncate, Write


@dataclass(frozen=True, slots=True)
class Created:
    """A name was made, for file number `file`."""

    name: str
    file: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """A name was taken away."""

    name: str
    is_synced: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """A file was written to or truncated."""

    name: str
    file: int
    change: Write | Truncate


@dataclass(frozen=True, slots=True)
class Synced:
    """A file's content was made safe, and the folder with it where SQLite does so."""

    name: str
    file: int
    with_folder: bool


@dataclass(frozen=True, slots=True)
class Told:
    """A request of the load, or an answer to it."""

    line: Line


@dataclass(frozen=True, slots=True)
class Phase:
    """What follows is opening, working or closing."""

    name: str


Event = Created | Deleted | Changed | Synced | Told | Phase

_names: Final = count()
_JOURNALS: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


@dataclass(slots=True)
class Tape:
    """All that happened, in one order."""

    #: What lay in the folder when the tape began.
    before: dict[str, bytes] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _files: dict[str, int] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._files = {name: next(self._numbers) for name in self.before}

    def note(self, line: Line) -> None:
        """Put down what a workload says."""
        self.events.append(Told(line))

    def mark(self, phase: str) -> None:
        """Put down what is going on."""
        self.events.append(Phase(phase))

    def opened(self, name: str) -> int:
        """Return the number of the file that a name stands for, making it if there is none."""
        with self._lock:
            if name not in self._files:
                self._files[name] = next(self._numbers)
                self.events.append(Created(name, self._files[name]))
            return self._files[name]

    def deleted(self, name: str, *, is_synced: bool) -> None:
        with self._lock:
            if self._files.pop(name, None) is not None:
                self.events.append(Deleted(name, is_synced))

    def changed(self, name: str, file: int, change: Write | Truncate) -> None:
        self.events.append(Changed(name, file, change))

    def synced(self, name: str, file: int, *, with_folder: bool) -> None:
        self.events.append(Synced(name, file, with_folder))


@dataclass(slots=True)
class Player:
    """Plays a tape, forward only."""

    tape: Tape
    folder: Folder = field(init=False)
    position: int = 0
    _platters: dict[int, Platter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = Folder.of(self.tape.before)
        self._platters = dict(enumerate(self.folder.names.values()))

    def play(self, until: int) -> list[Line]:
        """Play up to a place on the tape and give what was said meanwhile."""
        said: list[Line] = []
        for event in self.tape.events[self.position : until]:
            match event:
                case Told(line):
                    said.append(line)
                case Changed(_, file, change):
                    self._platters[file].changes.append(change)
                case Synced(_, file, with_folder):
                    self._platters[file].sync()
                    if with_folder:
                        self.folder.sync()
                case Created(name, file):
                    self._platters[file] = self.folder.create(name)
                case Deleted(name, is_synced):
                    self.folder.delete(name)
                    if is_synced:
                        self.folder.sync()
                case Phase():
                    pass
        self.position = until
        return said


class RecordingVfs(apsw.VFS):
    """Passes everything on to SQLite's own VFS, and writes it down. Registered under `name` until `unregister`."""

    def __init__(self, tape: Tape, base: str = "unix") -> None:
        self.name = f"recorder-{next(_names)}"
        self._base = base
        self._tape = tape
        super().__init__(self.name, base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:  # a temporary file, which no power cut leaves
            return apsw.VFSFile(self._base, name, flags)
        return _RecordedFile(self._tape, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        super().xDelete(filename, syncdir)
        self._tape.deleted(Path(filename).name, is_synced=syncdir)


class _RecordedFile(apsw.VFSFile):
    def __init__(self, tape: Tape, base: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        text = name if isinstance(name, str) else name.filename()
        self._tape = tape
        self._name = Path(text).name
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        super().__init__(base, name, flags)
        self._file = tape.opened(self._name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._tape.changed(self._name, self._file, Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._tape.changed(self._name, self._file, Truncate(newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        self._tape.synced(self._name, self._file, with_folder=self._syncs_folder)
        self._syncs_folder = False
