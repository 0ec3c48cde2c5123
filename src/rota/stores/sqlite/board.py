"""The board: a small file beside the database on which claims stand that wait for a job.

Each has a place of its own on it. The marks at the beginning of the file say which places are taken, so that to find
out that nobody waits is one call to the kernel; each is the checksum of what stands there. Who has answered a claim
writes the job in its place. The board is a hint, and never the truth: a claim that is not on it is answered as claims
always were, and one that should not be there any more finds nobody, or was answered under its name. So nobody needs a
lock to put one up, and nothing is brought to the disk on purpose.

Who brings a job looks under the lock of the database whether the claim is still there, and who takes its own claim off
has that lock as well. So either the claim was answered, and the database says so, or nobody will answer it any more.

It is read and written and not mapped into memory: to touch what is mapped on a full disk, or after somebody has cut the
file off, kills the process. What stands there is believed: who could write there could make a worker run what it
likes, and who could read there would read payloads. So it is for those only who may write to the database, and is made
by its owner or by root; one that is another's, or lets others in, is not used.

What happens when something fails: where the file cannot be made or opened, nobody waits on it. What was torn, since two
wrote at the same place, does not fit its mark and is nothing. After a restart of the host what stands there has a time
that has not come yet, and counts as little as what is past its time. A claim names the database that it is for: a board
that was copied along with one, or left behind by one that was replaced, shows others nothing.
"""

from __future__ import annotations

import os
import stat
import struct
import time
import zlib
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from rota.stores.open_claims import Told
from rota.stores.sqlite.forking import Holder
from rota.stores.sqlite.inodes import Inode, inode_in

#: How many claims can wait at once; others wait as they always did.
PLACES: Final = 64
#: What stands at one place has so many bytes at most.
PLACE_BYTES: Final = 4096
#: The mark of a place: the checksum of what stands there, which is never nothing; or nothing.
_MARK: Final = struct.Struct("<I")
_MARKS_SIZE: Final = PLACES * _MARK.size
_NOTHING: Final = bytes(_MARK.size)
_BEGIN: Final = 4096
#: How long what stands at a place is, since when it counts and until when.
_HEAD: Final = struct.Struct("<HQQ")
_WRITERS: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class OpenClaim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """A claim that waits: under which name, whose, for how long a lease, where its worker is found, and for what."""

    claim_id: str
    worker: str
    boot: str
    lease: int
    address: str
    file: Inode
    queues: tuple[str, ...]
    types: tuple[str, ...]


class Brought(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """What a claim was answered with: when, by the store's clock, and the job unless that has to be looked up."""

    claim_id: str
    at: int
    job: Told | None


class Notice(NamedTuple):
    """A claim that was seen on the board: since when it waits and until when, at which place, under which mark."""

    since: int
    place: int
    mark: int
    until: int
    claim: OpenClaim


_write: Final = msgspec.msgpack.Encoder().encode
_READER: Final = msgspec.msgpack.Decoder(OpenClaim | Brought)


def steady_micros() -> int:
    """Tell the time by the clock that all processes of this host share, and nobody sets."""
    return time.monotonic_ns() // 1000


def board_of(path: str) -> str:
    """Name the file."""
    return f"{path}-claims"


class Board(Holder):
    """The claims that wait for a job in one database. The times are of this host's steady clock, in microseconds."""

    def __init__(self, descriptor: int, file: Inode) -> None:
        super().__init__(descriptor)
        #: Which database it is for.
        self.file = file

    @classmethod
    def open(cls, path: str) -> Board | None:
        """Open the board of a database, or make it; None where that cannot be, or should not."""
        try:
            file = os.stat(path)  # noqa: PTH116 - a text will do
            descriptor = _opened(board_of(path), file)
        except OSError:
            return None
        if _is_for_writers(os.fstat(descriptor), file):
            return cls(descriptor, inode_in(file))
        os.close(descriptor)
        return None

    def marks(self) -> bytes:
        """Give the marks up to the last place that is taken; none if nobody waits. Asked for every lone submission."""
        try:
            return os.pread(self._descriptor, _MARKS_SIZE, 0).rstrip(b"\0")
        except OSError as error:
            _raise_a_signals(error)
            return b""

    def waiting(self, queue: str, job_type: str, marks: bytes | None = None) -> list[Notice]:
        """Give the claims that wait for a job of a lane; who has waited longest is first."""
        now = steady_micros()
        found = []
        marked = _read_marks(self.marks() if marks is None else marks)
        # All at once, and read only where the word occurs: there may be many who wait for something else.
        whole, word = self._bytes(len(marked) * PLACE_BYTES, _BEGIN), job_type.encode()
        for place, mark in enumerate(marked):
            if not mark:
                continue
            begin = place * PLACE_BYTES
            length, since, until = _head_of(whole, begin)
            if not since <= now < until:
                self.take_off(place, mark)
            elif whole.find(word, begin, begin + length) >= 0:
                claim = _read(whole[begin : begin + length], mark)
                if isinstance(claim, OpenClaim) and self._is_for(claim, queue, job_type):
                    found.append(Notice(since, place, mark, until, claim))
        found.sort()
        return found

    def _is_for(self, claim: OpenClaim, queue: str, job_type: str) -> bool:
        return claim.file == self.file and queue in claim.queues and job_type in claim.types

    def put_up(self, claim: OpenClaim, since: int, until: int) -> Notice | None:
        """Put a claim where there is room; None if there is none."""
        marks = _read_marks(self.marks())
        place = marks.index(0) if 0 in marks else len(marks)
        if place == PLACES:
            return None
        mark = self._put(place, claim, since, until)
        return None if mark is None else Notice(since, place, mark, until, claim)

    def put_answer(self, notice: Notice, brought: Brought) -> bool:
        """Write in the place of a claim what it was answered with; say whether it could be."""
        return self.has(notice) and self._put(notice.place, brought, notice.since, notice.until) is not None

    def answer_to(self, notice: Notice) -> Brought | None:
        """Give the answer that stands in the place of a claim, if it does."""
        found = self._at(notice.place, self._mark_at(notice.place))
        return found if isinstance(found, Brought) and found.claim_id == notice.claim.claim_id else None

    def clear(self, notice: Notice) -> None:
        """Take a claim off, or what it was answered with."""
        mark = self._mark_at(notice.place)
        if mark == notice.mark or (mark and self.answer_to(notice) is not None):
            self._write_at(_NOTHING, notice.place * _MARK.size)

    def has(self, notice: Notice) -> bool:
        """Whether a claim that was seen still stands there."""
        return self._mark_at(notice.place) == notice.mark

    def take_off(self, place: int, mark: int) -> None:
        """Take off what stands at a place, unless it is something else by now."""
        if self._mark_at(place) == mark:
            self._write_at(_NOTHING, place * _MARK.size)

    def _mark_at(self, place: int) -> int:
        return sum(_read_marks(self._bytes(_MARK.size, place * _MARK.size)))

    def _at(self, place: int, mark: int) -> OpenClaim | Brought | None:
        """Read what stands at a place under a mark."""
        whole = self._bytes(PLACE_BYTES, _BEGIN + place * PLACE_BYTES) if mark else b""
        return _read(whole[: _head_of(whole, 0)[0]], mark)

    def take_off_named(self, claim_id: str) -> None:
        """Take a claim off, wherever it stands."""
        for place, mark in enumerate(_read_marks(self.marks())):
            found = self._at(place, mark)
            if found is not None and found.claim_id == claim_id:
                self.take_off(place, mark)

    def _put(self, place: int, written: OpenClaim | Brought, since: int, until: int) -> int | None:
        text = _write(written)
        length = _HEAD.size + len(text)
        if length > PLACE_BYTES:
            return None
        whole = _HEAD.pack(length, since, until) + text
        mark = _mark_of(whole)
        # The mark last: who sees it reads all of it.
        is_there = self._write_at(whole, _BEGIN + place * PLACE_BYTES)
        return mark if is_there and self._write_at(_MARK.pack(mark), place * _MARK.size) else None

    def _write_at(self, written: bytes, start: int) -> bool:
        try:
            return os.pwrite(self._descriptor, written, start) == len(written)
        except OSError as error:
            _raise_a_signals(error)
            return False

    def _bytes(self, count: int, start: int) -> bytes:
        try:
            return os.pread(self._descriptor, count, start)
        except OSError as error:
            _raise_a_signals(error)
            return b""


def _read_marks(marks: bytes) -> tuple[int, ...]:
    """Read marks, of which what is nothing at the end may be missing."""
    count = -(-len(marks) // _MARK.size)
    return struct.unpack(f"<{count}I", marks.ljust(count * _MARK.size, b"\0"))


def _head_of(whole: bytes, begin: int) -> tuple[int, int, int]:
    """Give the length of what stands at a place, and its times; of what was cut off, those of nothing."""
    return _HEAD.unpack_from(whole, begin) if len(whole) >= begin + _HEAD.size else (0, 0, 0)


def _read(whole: bytes, mark: int) -> OpenClaim | Brought | None:
    if not whole or _mark_of(whole) != mark:
        return None
    try:
        found: OpenClaim | Brought = _READER.decode(whole[_HEAD.size :])
    except msgspec.DecodeError:
        # Of another release.
        return None
    return found


def _mark_of(whole: bytes) -> int:
    return zlib.crc32(whole) or 1


def _raise_a_signals(error: OSError) -> None:
    """Raise what is not the system's but a signal's, as a timeout is: whoever set it waits for it."""
    if error.errno is None:
        raise error


def _opened(name: str, file: os.stat_result) -> int:
    """Open a board; make it only if the database is ours, or everything is."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if os.geteuid() not in (0, file.st_uid):
        return os.open(name, flags)
    try:
        made = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(name, flags)
    # If its group cannot be the database's, it stays its owner's alone. The group first: what that may do, another must
    # never have been able to.
    with suppress(OSError):
        os.fchown(made, file.st_uid, file.st_gid)
        os.fchmod(made, _mode_for_writers(file))
    return made


def _is_for_writers(board: os.stat_result, file: os.stat_result) -> bool:
    """Whether a board is the database owner's, and nobody gets at it who may not write to the database."""
    is_ours = stat.S_ISREG(board.st_mode) and board.st_uid in (0, file.st_uid)
    mode = stat.S_IMODE(board.st_mode)
    is_our_groups = board.st_gid == file.st_gid or not mode & stat.S_IRWXG
    return is_ours and is_our_groups and not mode & ~_mode_for_writers(file)


def _mode_for_writers(file: os.stat_result) -> int:
    """Give the mode by which those may read and write who may write to a file."""
    writers = file.st_mode & _WRITERS
    return writers | writers << 1
