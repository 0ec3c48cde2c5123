"""The claims file: a small file beside the database with the claims that wait for a job, one per slot.

The file begins with one checksum per slot; zero means that the slot is free, so one read shows that no claim waits. A
submitter that answers a claim writes the job into the claim's slot. The file is only a hint: a claim that is not in it
is answered as usual, and a claim that should not be there any more belongs to a dead process, or has an answer in the
database already. So no lock is needed to add a claim, and nothing is synced to the disk.

A submitter checks with the write lock of the database that the claim is still in the file, and a worker removes its own
claim with that lock. So either the claim was answered, and the database says so, or no submitter will answer it.

The file is read and written, not mapped: touching a mapped page on a full disk, or after the file was truncated, kills
the process. Its content is trusted: a process that can write it could make a worker run any job, and one that can read
it reads payloads. So only those may use it that may write to the database; it is created by the database's owner or by
root, and a file that belongs to another user, or has wider permissions, is not used.

Failures: where the file cannot be created or opened, no claim waits in it. A torn slot (two processes wrote it at once)
does not match its checksum and is ignored. After a restart of the host the times in it are in the future and are
ignored, as times in the past are. Each claim names its database file: a claims file that was copied along with a
database, or was left behind by a replaced one, is ignored.
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

from rota.stores.handoff import JobColumns
from rota.stores.sqlite.file_identity import FileId, file_id_in
from rota.stores.sqlite.fork import DescriptorOwner

#: How many claims can wait in the file; further claims wait without it.
SLOTS: Final = 64
#: The size of a slot, and so the largest entry.
SLOT_BYTES: Final = 4096
#: The checksum of a slot's content, never zero; zero for a free slot.
_CHECKSUM: Final = struct.Struct("<I")
_CHECKSUMS_SIZE: Final = SLOTS * _CHECKSUM.size
_FREE: Final = bytes(_CHECKSUM.size)
_FIRST_SLOT: Final = 4096
#: Length of the entry with this header, and since and until when it counts.
_HEADER: Final = struct.Struct("<HQQ")
_WRITERS: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class WaitingClaim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """A claim that waits for a job."""

    claim_id: str
    worker: str
    boot: str
    #: Duration of the lease, in microseconds.
    lease: int
    #: Where its process receives wake-ups.
    address: str
    file: FileId
    queues: tuple[str, ...]
    types: tuple[str, ...]


class ClaimAnswer(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """The answer to a claim: its time by the store's clock, and the job unless that must be read from the database."""

    claim_id: str
    at: int
    job: JobColumns | None


class ClaimSlot(NamedTuple):
    """A claim as it was seen in the file, and where."""

    since: int
    slot: int
    checksum: int
    until: int
    claim: WaitingClaim


_encode: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(WaitingClaim | ClaimAnswer)


def monotonic_micros() -> int:
    """Return the monotonic time of this host, which all its processes share."""
    return time.monotonic_ns() // 1000


def claims_file_of(path: str) -> str:
    return f"{path}-claims"


class ClaimsFile(DescriptorOwner):
    """The claims that wait for jobs of one database. Times are monotonic microseconds of this host."""

    def __init__(self, descriptor: int, database: FileId) -> None:
        super().__init__(descriptor)
        self.database = database

    @classmethod
    def open(cls, path: str) -> ClaimsFile | None:
        """Open or create the claims file of a database; None where that is impossible or unsafe."""
        try:
            database = os.stat(path)  # noqa: PTH116 - a text will do
            descriptor = _open_or_create(claims_file_of(path), database)
        except OSError:
            return None
        if _is_for_writers_only(os.fstat(descriptor), database):
            return cls(descriptor, file_id_in(database))
        os.close(descriptor)
        return None

    def checksums(self) -> bytes:
        """Return the checksums up to the last used slot; empty if no claim waits. Called at every single submission."""
        try:
            return os.pread(self._descriptor, _CHECKSUMS_SIZE, 0).rstrip(b"\0")
        except OSError as error:
            _raise_if_by_signal(error)
            return b""

    def waiting(self, queue: str, job_type: str, checksums: bytes | None = None) -> list[ClaimSlot]:
        """Return the claims that wait for jobs of a queue and type, longest waiting first."""
        now = monotonic_micros()
        slots = []
        used = _unpack_checksums(self.checksums() if checksums is None else checksums)
        # One read for all, decoded only where the type occurs: many claims may wait for other types.
        content, type_bytes = self._read_at(len(used) * SLOT_BYTES, _FIRST_SLOT), job_type.encode()
        for slot, checksum in enumerate(used):
            if not checksum:
                continue
            begin = slot * SLOT_BYTES
            length, since, until = _header_at(content, begin)
            if not since <= now < until:
                self.remove(slot, checksum)
            elif content.find(type_bytes, begin, begin + length) >= 0:
                claim = _decode(content[begin : begin + length], checksum)
                if isinstance(claim, WaitingClaim) and self._is_for(claim, queue, job_type):
                    slots.append(ClaimSlot(since, slot, checksum, until, claim))
        slots.sort()
        return slots

    def _is_for(self, claim: WaitingClaim, queue: str, job_type: str) -> bool:
        return claim.file == self.database and queue in claim.queues and job_type in claim.types

    def add(self, claim: WaitingClaim, since: int, until: int) -> ClaimSlot | None:
        """Add a claim; None if no slot is free, or the claim is too long."""
        checksums = _unpack_checksums(self.checksums())
        slot = checksums.index(0) if 0 in checksums else len(checksums)
        if slot == SLOTS:
            return None
        checksum = self._write_entry(slot, claim, since, until)
        return None if checksum is None else ClaimSlot(since, slot, checksum, until, claim)

    def write_answer(self, entry: ClaimSlot, answer: ClaimAnswer) -> bool:
        """Replace a claim by its answer; return whether the claim was there and the answer fits."""
        return self.has(entry) and self._write_entry(entry.slot, answer, entry.since, entry.until) is not None

    def read_answer(self, entry: ClaimSlot) -> ClaimAnswer | None:
        """Return the answer in the slot of a claim, if there is one."""
        content = self._entry_at(entry.slot, self._checksum_at(entry.slot))
        return content if isinstance(content, ClaimAnswer) and content.claim_id == entry.claim.claim_id else None

    def clear(self, entry: ClaimSlot) -> None:
        """Remove a claim or its answer."""
        checksum = self._checksum_at(entry.slot)
        if checksum == entry.checksum or (checksum and self.read_answer(entry) is not None):
            self._write_at(_FREE, entry.slot * _CHECKSUM.size)

    def has(self, entry: ClaimSlot) -> bool:
        """Whether a claim is still in its slot."""
        return self._checksum_at(entry.slot) == entry.checksum

    def remove(self, slot: int, checksum: int) -> None:
        """Free a slot unless it has other content by now."""
        if self._checksum_at(slot) == checksum:
            self._write_at(_FREE, slot * _CHECKSUM.size)

    def remove_claim(self, claim_id: str) -> None:
        """Remove a claim by id, in whichever slot."""
        for slot, checksum in enumerate(_unpack_checksums(self.checksums())):
            entry = self._entry_at(slot, checksum)
            if entry is not None and entry.claim_id == claim_id:
                self.remove(slot, checksum)

    def _checksum_at(self, slot: int) -> int:
        return sum(_unpack_checksums(self._read_at(_CHECKSUM.size, slot * _CHECKSUM.size)))

    def _entry_at(self, slot: int, checksum: int) -> WaitingClaim | ClaimAnswer | None:
        content = self._read_at(SLOT_BYTES, _FIRST_SLOT + slot * SLOT_BYTES) if checksum else b""
        return _decode(content[: _header_at(content, 0)[0]], checksum)

    def _write_entry(self, slot: int, entry: WaitingClaim | ClaimAnswer, since: int, until: int) -> int | None:
        body = _encode(entry)
        length = _HEADER.size + len(body)
        if length > SLOT_BYTES:
            return None
        content = _HEADER.pack(length, since, until) + body
        checksum = _checksum_of(content)
        # The checksum last: a process that reads it finds the whole entry.
        is_written = self._write_at(content, _FIRST_SLOT + slot * SLOT_BYTES)
        return checksum if is_written and self._write_at(_CHECKSUM.pack(checksum), slot * _CHECKSUM.size) else None

    def _write_at(self, content: bytes, start: int) -> bool:
        try:
            return os.pwrite(self._descriptor, content, start) == len(content)
        except OSError as error:
            _raise_if_by_signal(error)
            return False

    def _read_at(self, count: int, start: int) -> bytes:
        try:
            return os.pread(self._descriptor, count, start)
        except OSError as error:
            _raise_if_by_signal(error)
            return b""


def _unpack_checksums(checksums: bytes) -> tuple[int, ...]:
    """Unpack checksums, of which zeros at the end may be missing."""
    count = -(-len(checksums) // _CHECKSUM.size)
    return struct.unpack(f"<{count}I", checksums.ljust(count * _CHECKSUM.size, b"\0"))


def _header_at(content: bytes, begin: int) -> tuple[int, int, int]:
    """Return length and times of an entry; zeros if the file was truncated."""
    return _HEADER.unpack_from(content, begin) if len(content) >= begin + _HEADER.size else (0, 0, 0)


def _decode(content: bytes, checksum: int) -> WaitingClaim | ClaimAnswer | None:
    if not content or _checksum_of(content) != checksum:
        return None
    try:
        entry: WaitingClaim | ClaimAnswer = _DECODER.decode(content[_HEADER.size :])
    except msgspec.DecodeError:
        # Written by another release.
        return None
    return entry


def _checksum_of(content: bytes) -> int:
    return zlib.crc32(content) or 1


def _raise_if_by_signal(error: OSError) -> None:
    """Raise an error without a number: a signal handler raised it (a timeout), and the caller expects it."""
    if error.errno is None:
        raise error


def _open_or_create(name: str, database: os.stat_result) -> int:
    """Open a claims file; create it only as the owner of the database, or as root."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if os.geteuid() not in (0, database.st_uid):
        return os.open(name, flags)
    try:
        created = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(name, flags)
    # If the group cannot be set, the file stays with its owner alone. The group is set before the mode, so that no
    # other group ever has the permissions.
    with suppress(OSError):
        os.fchown(created, database.st_uid, database.st_gid)
        os.fchmod(created, _mode_for_writers(database))
    return created


def _is_for_writers_only(file: os.stat_result, database: os.stat_result) -> bool:
    """Whether the file belongs to the database's owner, and is closed to users without write access to the database."""
    is_ours = stat.S_ISREG(file.st_mode) and file.st_uid in (0, database.st_uid)
    mode = stat.S_IMODE(file.st_mode)
    is_our_group = file.st_gid == database.st_gid or not mode & stat.S_IRWXG
    return is_ours and is_our_group and not mode & ~_mode_for_writers(database)


def _mode_for_writers(database: os.stat_result) -> int:
    """Return the mode for reading and writing by all users with write access to the database."""
    writers = database.st_mode & _WRITERS
    return writers | writers << 1
