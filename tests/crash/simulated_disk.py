"""Simulated disk: what may be left of a folder after a power cut.

The model, as strict as POSIX lets a disk be, without states that no disk can be in:

- Only a completed sync makes a file's content safe, and only a sync of the folder its name. Making a file and deleting
  one are safe when the folder has been synced since; a sync of the file itself does not make its name safe (on most
  filesystems it does; we do not count on it).
- Between syncs each sector of 512 bytes is written back whenever the kernel likes, or never. A sector on the disk is
  thus as it was after some number of the writes to it: all earlier ones, none of the later ones. Sectors know nothing
  of each other, so that a write over several of them may be torn, and a later write may survive an earlier one
  elsewhere. A sector itself is written whole, and bytes beside those that were written do not change (SQLite calls
  this powersafe overwrite and counts on it).
- The length of a file moves through the lengths it has had, in order, and stops anywhere, whatever became of the data.
  Where the file grew and the data did not come along there are zeros, or what lay on the disk before. What a
  truncation cut off does not come back when the file grows again.
- Each name goes through what happened to it, in order, and stops anywhere, independent of other names. A file that was
  deleted may be there again, with whatever was left of its content.
- Memory is gone: that includes the wal-index (`-shm`), which is never synced. Its file may be missing, empty, or
  full of anything.

How much is lost is drawn from the seed, and with it the kind of disk: some lose all that was not synced, some
nothing, some the end, some this and that.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

SECTOR: Final = 512


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written at a place."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file cut, or stretched, to a length."""

    size: int


Change = Write | Truncate


class Temper(Enum):
    """How a disk deals with what was not synced."""

    LOSES_ALL = auto()
    LOSES_NOTHING = auto()
    #: Everything up to some change, and some sectors of that one.
    LOSES_THE_END = auto()
    #: Each change is kept, lost or torn by itself.
    LOSES_CHANGES = auto()
    #: Each sector of each change by itself.
    LOSES_SECTORS = auto()


TEMPERS: Final = tuple(Temper)


@dataclass(slots=True)
class Platter:
    """One file: what is safe, and what has happened since."""

    safe: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        """Make all that has happened safe."""
        for change in self.changes:
            _apply(self.safe, change)
        self.changes.clear()

    def current(self) -> bytes:
        """Return what a program that reads the file sees."""
        content = bytearray(self.safe)
        for change in self.changes:
            _apply(content, change)
        return bytes(content)

    def surviving(self, rng: random.Random, temper: Temper | None = None) -> bytes:
        """Draw what a power cut leaves of the file."""
        count = len(self.changes)
        if not count:
            return bytes(self.safe)
        match temper or rng.choice(TEMPERS):
            case Temper.LOSES_ALL:
                return bytes(self.safe)
            case Temper.LOSES_NOTHING:
                return self.current()
            case Temper.LOSES_THE_END:
                kept = rng.randrange(count)
                return self._left(rng, [1.0] * kept + [0.5] + [0.0] * (count - kept - 1), rng.choice([kept, kept + 1]))
            case Temper.LOSES_CHANGES:
                chances = [rng.choice([0.0, 1.0, 1.0, 0.5]) for _ in range(count)]
                return self._left(rng, chances, rng.randint(0, count))
            case Temper.LOSES_SECTORS:
                return self._left(rng, [rng.random()] * count, rng.choice([count, rng.randint(0, count)]))

    def _left(self, rng: random.Random, chances: list[float], lengths: int) -> bytes:
        """Build the file: each sector of a write has its chance, and so many changes of length have come through."""
        cuts = [(index, one.size) for index, one in enumerate(self.changes) if isinstance(one, Truncate)]
        content = bytearray(self.safe)
        for index, size in cuts:
            if index < lengths:
                del content[size:]
        content = content.ljust(self._length_after(lengths), b"\0")[: self._length_after(lengths)]
        for sector, writes in self._by_sector().items():
            start = sector * SECTOR
            if start >= len(content):
                continue
            # Between the last cut that took effect here and the next one that did not.
            first = max([index + 1 for index, size in cuts if index < lengths and size <= start], default=0)
            beyond = min([index for index, size in cuts if index >= lengths and size <= start], default=len(chances))
            mine = [index for index in writes if first <= index < beyond]
            kept = max([index for index in mine if rng.random() < chances[index]], default=-1)
            for index in mine:
                if index <= kept:
                    self._write_sector(content, index, start)
            if kept < 0 and (first or start >= len(self.safe)) and rng.random() < 0.5:
                _spoil(content, start, rng)
        return bytes(content)

    def _length_after(self, changes: int) -> int:
        length = len(self.safe)
        for change in self.changes[:changes]:
            length = change.size if isinstance(change, Truncate) else max(length, change.offset + len(change.data))
        return length

    def _by_sector(self) -> dict[int, list[int]]:
        """Return which writes touch which sector."""
        touched: dict[int, list[int]] = defaultdict(list)
        for index, change in enumerate(self.changes):
            if isinstance(change, Write) and change.data:
                last = (change.offset + len(change.data) - 1) // SECTOR
                for sector in range(change.offset // SECTOR, last + 1):
                    touched[sector].append(index)
        return touched

    def _write_sector(self, content: bytearray, index: int, start: int) -> None:
        """Bring that part of a write that falls into a sector, as far as the file reaches."""
        change = self.changes[index]
        assert isinstance(change, Write)
        begin = max(change.offset, start)
        end = min(change.offset + len(change.data), start + SECTOR, len(content))
        if begin < end:
            content[begin:end] = change.data[begin - change.offset : end - change.offset]


def _apply(content: bytearray, change: Change) -> None:
    match change:
        case Truncate(size):
            del content[size:]
            content.extend(bytes(size - len(content)))
        case Write(offset, data):
            if offset > len(content):
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data


def _spoil(content: bytearray, start: int, rng: random.Random) -> None:
    """Put into a sector what lay on the disk before the file grew over it."""
    end = min(start + SECTOR, len(content))
    content[start:end] = rng.randbytes(end - start)


@dataclass(slots=True)
class Folder:
    """Names and the files they stand for: what is safe, and what has happened to the names since."""

    safe: dict[str, Platter] = field(default_factory=dict)
    names: dict[str, Platter] = field(default_factory=dict)
    changes: list[tuple[str, Platter | None]] = field(default_factory=list)

    @classmethod
    def of(cls, image: dict[str, bytes]) -> Folder:
        """Begin with files that are safe."""
        platters = {name: Platter(bytearray(content)) for name, content in image.items()}
        return cls(dict(platters), dict(platters))

    def create(self, name: str) -> Platter:
        platter = self.names[name] = Platter()
        self.changes.append((name, platter))
        return platter

    def delete(self, name: str) -> None:
        del self.names[name]
        self.changes.append((name, None))

    def sync(self) -> None:
        """Make all names safe, though not what is in the files."""
        self.safe = dict(self.names)
        self.changes.clear()

    def surviving(self, rng: random.Random) -> dict[str, bytes]:
        """Draw what a power cut leaves."""
        lives: dict[str, list[Platter | None]] = {}
        for name, platter in self.changes:
            lives.setdefault(name, [self.safe.get(name)]).append(platter)
        left: dict[str, Platter | None] = {**self.safe}
        keeps_none, keeps_all = rng.choice([(True, False), (False, True), (False, False)])
        for name, stages in lives.items():
            left[name] = stages[0] if keeps_none else stages[-1] if keeps_all else rng.choice(stages)
        return {name: platter.surviving(rng) for name, platter in left.items() if platter is not None}
