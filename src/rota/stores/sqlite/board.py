"""The board: a small file beside the database on which claims stand that wait for a job.

Each has a place of its own on it. The marks at the beginning of the file say which places are taken, so that to find
out that nobody waits is one call to the kernel; each is the checksum of what stands there. The board is a hint, and
never the truth: a claim that is not on it is answered as claims always were, and one that should not be there any more
finds nobody, or was answered under its name. So nobody needs a lock to put one up, and nothing is brought to the disk
on purpose.

Who brings a job looks under the lock of the database whether the claim is still there, and who takes its own claim off
has that lock as well. So either the claim was answered, and the database says so, or nobody will answer it any more.

It is read and written and not mapped into memory: to touch what is mapped on a full disk, or after somebody has cut the
file off, kills the process. Whoever may write to the database may read and write it, and nobody else may: to know what
is on it is to be believed by who waits, see `letterbox`.

What happens when something fails: where the file cannot be made or opened, nobody waits on it. What was torn, since two
wrote at the same place, does not fit its mark and is no claim. After a restart of the host what stands there has a
time that has not come yet, and counts as little as what is past its time.
"""

from __future__ import annotations

import os
import stat
import struct
import threading
import time
import zlib
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from rota.stores.sqlite.forking import mind

#: How many claims can wait at once; others wait as they always did.
PLACES: Final = 64
#: What stands at one place has so many bytes at most.
PLACE_BYTES: Final = 4096
#: The mark of a place: the checksum of what stands there, which is never nothing; or nothing.
_MARK: Final = struct.Struct("<I")
_NOTHING: Final = bytes(_MARK.size)
_MARKS_SIZE: Final = PLACES * _MARK.size
_BEGIN: Final = 4096
_CLOSED: Final = -1
_LENGTH: Final = struct.Struct("<H")


class OpenClaim(msgspec.Struct, frozen=True, array_like=True):
    """A claim that waits: who asks under which name, for how long a lease, since when and until when, and for what.

    The times are of this host's steady clock, in microseconds. Who it is that asks is told at an address, by a secret.
    """

    claim_id: str
    worker: str
    boot: str
    lease: int
    since: int
    until: int
    address: str
    secret: str
    queues: tuple[str, ...]
    types: tuple[str, ...]


class Notice(NamedTuple):
    """A claim that was seen on the board: since when it waits, at which place, under which mark."""

    since: int
    place: int
    mark: int
    claim: OpenClaim


_write: Final = msgspec.msgpack.Encoder().encode
_READER: Final = msgspec.msgpack.Decoder(OpenClaim)


def steady_micros() -> int:
    """Tell the time by the clock that all processes of this host share, and nobody sets."""
    return time.monotonic_ns() // 1000


def board_of(path: str) -> str:
    """Name the file."""
    return f"{path}-claims"


class Board:
    """The claims that wait for a job in one database. Used by whoever has the turn at its writer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.turn = threading.Lock()
        mind(self)

    @classmethod
    def open(cls, path: str) -> Board | None:
        """Open the board of a database, or make it; None where that cannot be."""
        name = board_of(path)
        try:
            mode = _for_writers(os.stat(path))  # noqa: PTH116 - a text will do
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError:
            return None
        board = cls(descriptor)
        try:
            if board._is_ours(path, mode):
                return board
        except OSError:
            pass
        board.close()
        return None

    def _is_ours(self, path: str, mode: int) -> bool:
        """See to it that those may use it who may write to the database; say whether it is so."""
        board, file = os.fstat(self._descriptor), os.stat(path)  # noqa: PTH116 - as above
        if not stat.S_ISREG(board.st_mode):
            return False
        if os.geteuid() == 0 and (board.st_uid, board.st_gid) != (file.st_uid, file.st_gid):
            os.fchown(self._descriptor, file.st_uid, file.st_gid)
        if stat.S_IMODE(board.st_mode) != mode:
            # Somebody else's is as it was made. One that lets in more than that is not to be trusted.
            with suppress(PermissionError):
                os.fchmod(self._descriptor, mode)
        return not stat.S_IMODE(os.fstat(self._descriptor).st_mode) & ~mode

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def forsake(self) -> None:
        """Let go of the file in a forked process: whoever would look at it is gone."""
        self.close()

    def marks(self) -> bytes:
        """Give the marks up to the last place that is taken; none if nobody waits. Asked for every lone submission."""
        try:
            return os.pread(self._descriptor, _MARKS_SIZE, 0).rstrip(b"\0")
        except OSError as error:
            _told_by_the_system(error)
            return b""

    def waiting(self, queue: str, job_type: str, marks: bytes | None = None) -> list[Notice]:
        """Give the claims that wait for a job of a lane; who has waited longest is first."""
        now = steady_micros()
        found = []
        for place, mark in enumerate(_read_marks(self.marks() if marks is None else marks)):
            if mark:
                claim = self._read(place, mark)
                if claim is None or not claim.since <= now < claim.until:
                    self.take_off(place)
                elif queue in claim.queues and job_type in claim.types:
                    found.append(Notice(claim.since, place, mark, claim))
        found.sort()
        return found

    def put_up(self, claim: OpenClaim) -> int | None:
        """Put a claim where there is room, and say where; None if there is none."""
        text = _write(claim)
        written = _LENGTH.pack(len(text)) + text if len(text) <= PLACE_BYTES - _LENGTH.size else None
        marks = _read_marks(self.marks())
        place = marks.index(0) if 0 in marks else len(marks)
        if written is None or place == PLACES:
            return None
        try:
            os.pwrite(self._descriptor, written, _BEGIN + place * PLACE_BYTES)
            # Only now: who sees the mark reads all of it.
            os.pwrite(self._descriptor, _MARK.pack(_mark_of(written)), place * _MARK.size)
        except OSError as error:
            _told_by_the_system(error)
            return None
        return place

    def has(self, notice: Notice) -> bool:
        """Whether a claim that was seen still stands there."""
        return self._bytes(_MARK.size, notice.place * _MARK.size) == _MARK.pack(notice.mark)

    def take_off(self, place: int) -> None:
        """Take off what stands at a place."""
        try:
            os.pwrite(self._descriptor, _NOTHING, place * _MARK.size)
        except OSError as error:
            _told_by_the_system(error)

    def _read(self, place: int, mark: int) -> OpenClaim | None:
        whole = self._bytes(PLACE_BYTES, _BEGIN + place * PLACE_BYTES)
        if len(whole) < _LENGTH.size:
            return None
        written = whole[: _LENGTH.size + _LENGTH.unpack_from(whole)[0]]
        if _mark_of(written) != mark:
            return None
        try:
            return _READER.decode(written[_LENGTH.size :])
        except msgspec.DecodeError:
            # Of another release.
            return None

    def _bytes(self, count: int, start: int) -> bytes:
        try:
            return os.pread(self._descriptor, count, start)
        except OSError as error:
            _told_by_the_system(error)
            return b""


def _read_marks(marks: bytes) -> tuple[int, ...]:
    """Read marks, of which what is nothing at the end may be missing."""
    count = -(-len(marks) // _MARK.size)
    return struct.unpack(f"<{count}I", marks.ljust(count * _MARK.size, b"\0"))


def _mark_of(written: bytes) -> int:
    return zlib.crc32(written) or 1


def _told_by_the_system(error: OSError) -> None:
    """Raise what is not the system's but a signal's, as a timeout is: whoever set it waits for it."""
    if error.errno is None:
        raise error


def _for_writers(file: os.stat_result) -> int:
    """Give the mode by which those may read and write who may write to a file."""
    writers = file.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return writers | writers << 1
