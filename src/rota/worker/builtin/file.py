"""The built-in job type `file`: operations on regular files under one root directory, and nowhere else.

A path is opened component by component from the root's descriptor, and no component may be a symbolic link: the kernel
resolves each name at the moment of use, so nothing can be swapped between check and use. Open files are checked through
their descriptors: only regular files with one name (a hard link could lead outside), and not too large. Disabled unless
a root is set. All files together may not exceed a quota; new files get a configured mode.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.worker.builtin.payloads import fields_of, text_in
from rota.worker.exceptions import GiveUp

_LONGEST_PATH: Final = 4096
_LONGEST_NAME: Final = 255
_CONTENT: Final = frozenset({"write", "append"})
_TWO_PATHS: Final = frozenset({"copy", "move"})
OPERATIONS: Final = ("write", "append", "read", "copy", "move", "delete")
_FIELDS: Final = ("operation", "path", "content", "to")
FILE_BYTES: Final = 1_000_000
#: The most files under the root; all of them are counted before each write.
MOST_FILES: Final = 10_000
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Do not hang on a pipe, do not follow links, do not inherit.
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def check_file(payload: object) -> None:
    """Refuse a payload that `file` cannot run."""
    fields = fields_of(payload, _FIELDS)
    operation = text_in(fields, "operation", longest=20)
    if operation not in OPERATIONS:
        message = f"payload.operation: must be one of {', '.join(OPERATIONS)}"
        raise InvalidRequest(message, field="payload.operation")
    components(text_in(fields, "path", longest=_LONGEST_PATH), "payload.path")
    if operation in _TWO_PATHS:
        components(text_in(fields, "to", longest=_LONGEST_PATH), "payload.to")
    elif "to" in fields:
        raise InvalidRequest(f"payload.to: {operation} takes no second path", field="payload.to")
    if operation in _CONTENT:
        _bytes(text_in(fields, "content", longest=FILE_BYTES))
    elif "content" in fields:
        raise InvalidRequest(f"payload.content: {operation} takes no content", field="payload.content")


def components(path: str, field: str) -> list[str]:
    """Split a path; refuse one that could lead out of the root."""
    parts = path.split("/")
    for part in parts:
        if part in {"", ".", ".."} or "\0" in part or len(part.encode("utf-8", "replace")) > _LONGEST_NAME:
            problem = "must be a relative path of plain names, without '..', '.', empty parts or a leading slash"
            raise InvalidRequest(f"{field}: {path[:200]!r} {problem}", field=field)
    return parts


def _bytes(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "payload.content: has characters that cannot be written", field="payload.content"
        ) from None


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The root directory, the quota of all files in bytes, and the mode of new files."""

    root: Path
    quota: int = 1_000_000_000
    mode: int = 0o640


class FileOperations:
    """Operations on files under a root."""

    def __init__(self, settings: FileSettings, *, limit: int = FILE_BYTES) -> None:
        self._root = settings.root
        self._quota = settings.quota
        self._mode = settings.mode
        self._limit = limit

    def __call__(self, payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Perform the operation of a payload."""
        check_file(payload)
        operations: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "write": self._write,
            "append": self._append,
            "read": self._read,
            "copy": self._copy,
            "move": self._move,
            "delete": self._delete,
        }
        return {"path": payload["path"], **operations[payload["operation"]](payload)}

    def _write(self, payload: dict[str, Any]) -> dict[str, Any]:
        data = _bytes(payload["content"])
        self._reserve(len(data))
        with self._parent(payload["path"], make=True) as (parent, name):
            _replace(parent, name, data, self._mode)
        return {"bytes": len(data)}

    def _append(self, payload: dict[str, Any]) -> dict[str, Any]:
        data = _bytes(payload["content"])
        self._reserve(len(data))
        with (
            self._parent(payload["path"], make=True) as (parent, name),
            _opened(parent, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self._mode) as descriptor,
        ):
            if os.fstat(descriptor).st_size + len(data) > self._limit:
                raise GiveUp(f"{payload['path']} would grow beyond {self._limit:,} bytes")
            _write_all(descriptor, data)
            os.fsync(descriptor)
        return {"bytes": len(data)}

    def _read(self, payload: dict[str, Any]) -> dict[str, Any]:
        data = self._content(payload["path"])
        try:
            return {"bytes": len(data), "content": data.decode()}
        except UnicodeDecodeError:
            raise GiveUp(f"{payload['path']} is not UTF-8 text") from None

    def _copy(self, payload: dict[str, Any]) -> dict[str, Any]:
        data = self._content(payload["path"])
        self._reserve(len(data))
        with self._parent(payload["to"], make=True) as (parent, name):
            _replace(parent, name, data, self._mode)
        return {"to": payload["to"], "bytes": len(data)}

    def _move(self, payload: dict[str, Any]) -> dict[str, Any]:
        with (
            self._parent(payload["path"]) as (source, name),
            self._parent(payload["to"], make=True) as (target, new_name),
        ):
            _must_be_plain(os.stat(name, dir_fd=source, follow_symlinks=False), payload["path"])
            _require_plain_target(target, new_name)
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        return {"to": payload["to"]}

    def _delete(self, payload: dict[str, Any]) -> dict[str, Any]:
        # A file that is gone counts as deleted: the job may have run before.
        with suppress(FileNotFoundError), self._parent(payload["path"]) as (parent, name):
            _must_be_plain(os.stat(name, dir_fd=parent, follow_symlinks=False), payload["path"])
            os.unlink(name, dir_fd=parent)
            return {"is_deleted": True}
        return {"is_deleted": False}

    def _content(self, path: str) -> bytes:
        with self._parent(path) as (parent, name), _opened(parent, name, os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > self._limit:
                raise GiveUp(f"{path} has {size:,} bytes; at most {self._limit:,} are read")
            return _read_all(descriptor, self._limit)

    def _reserve(self, size: int) -> None:
        """Refuse to write beyond the quota, or if there are so many files that counting them takes too long.

        Two jobs that count at the same moment may together exceed the quota by the size of one write.
        """
        used = files = 0
        for _, _, names, descriptor in os.fwalk(self._root):
            files += len(names)
            used += sum(_size(name, descriptor) for name in names)
            if files >= MOST_FILES:
                raise GiveUp(f"there are {MOST_FILES:,} files or more under the root of file jobs; delete some")
        if used + size > self._quota:
            raise GiveUp(f"{size:,} bytes more would exceed the quota of {self._quota:,} bytes; {used:,} are in use")

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the directory of a path; yield its descriptor and the last name."""
        *directories, name = components(path, "payload.path")
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for directory in directories:
                below = _down(descriptor, directory, make=make)
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)


def _size(name: str, directory: int) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # deleted meanwhile


def _down(descriptor: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o750, dir_fd=descriptor)
    try:
        return os.open(name, _DIRECTORY, dir_fd=descriptor)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise GiveUp(f"{name!r} is not a directory; links are not followed") from None
        raise


@contextmanager
def _opened(parent: int, name: str, flags: int, mode: int = 0o600) -> Iterator[int]:
    """Open a regular file; refuse everything else."""
    try:
        descriptor = os.open(name, flags | _SAFELY, mode, dir_fd=parent)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV}:
            raise GiveUp(f"{name!r} is not a regular file; links are not followed") from None
        raise
    try:
        _must_be_plain(os.fstat(descriptor), name)
        yield descriptor
    finally:
        os.close(descriptor)


def _must_be_plain(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise GiveUp(f"{path!r} is not a regular file; links are not followed")
    if status.st_nlink > 1:
        raise GiveUp(f"{path!r} has other names (hard links), which may lie outside of the root")


def _require_plain_target(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):
        _must_be_plain(os.stat(name, dir_fd=parent, follow_symlinks=False), name)


def _replace(parent: int, name: str, data: bytes, mode: int) -> None:
    """Replace a file atomically."""
    _require_plain_target(parent, name)
    temporary = f".rota-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600, dir_fd=parent)
    try:
        try:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise
    os.fsync(parent)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read_all(descriptor: int, limit: int) -> bytes:
    data = bytearray()
    while len(data) <= limit and (chunk := os.read(descriptor, 1 << 16)):
        data += chunk
    return bytes(data[:limit])
