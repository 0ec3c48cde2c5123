"""The job types that are built in: their handlers, and the checks of their payloads for whoever takes submissions.

What sends requests is loaded with the first of them: it is a quarter of all that a worker would load, and most workers
never need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rota.core.errors import InvalidRequest
from rota.worker.builtin import plain
from rota.worker.builtin.addresses import Guard
from rota.worker.builtin.file import Files, FileSettings, check_file
from rota.worker.calling import Call, WrongArguments
from rota.worker.handlers import Executor, Handler

if TYPE_CHECKING:
    from rota.worker.builtin.http import Http

__all__ = ["CHECKS", "FileSettings", "builtin_handlers", "load_http"]


def load_http() -> type[Http]:
    """Load what sends requests."""
    from rota.worker.builtin.http import Http  # noqa: PLC0415 - see above

    return Http


def _check_http(payload: object) -> None:
    from rota.worker.builtin.http import check_http  # noqa: PLC0415 - see above

    check_http(payload)


#: By type, what refuses a wrong payload (as decoded from JSON) with `InvalidRequest`, naming the field.
CHECKS: Final[Mapping[str, Callable[[object], None]]] = MappingProxyType(
    {
        "http": _check_http,
        "sleep": plain.check_sleep,
        "file": check_file,
        "demo": plain.check_anything,
        "echo": plain.check_anything,
        "default": plain.check_anything,
    }
)


def builtin_handlers(
    *, allow_hosts: Iterable[str] = (), files: FileSettings | None = None, timeout: timedelta | None = None
) -> list[Handler]:
    """Give the built-in handlers: `file` only with a root, and `http` also to hosts and networks that are listed.

    `timeout` is for jobs that have none of their own: a `sleep` of a year would keep a slot for a year.
    """
    guard = Guard.of(allow_hosts)
    http: Http | None = None

    async def ask(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        nonlocal http
        if http is None:
            # On a thread: loading takes a while, and others share this loop.
            http = (await asyncio.to_thread(load_http))(guard)
        return await http(payload)

    kinds: list[tuple[str, Callable[..., Any], Executor]] = [
        ("http", ask, "async"),
        ("sleep", plain.sleep, "async"),
        ("demo", plain.demo, "async"),
        ("echo", plain.echo, "async"),
        ("default", plain.default, "async"),
    ]
    if files is not None:
        kinds.append(("file", Files(files), "thread"))
    return [
        Handler(type_, function, executor, timeout, give_up_on=(InvalidRequest,), decode=_whole)
        for type_, function, executor in kinds
    ]


def _whole(payload: str) -> Call:
    """Give the payload as the one argument: these handlers read it themselves."""
    try:
        return (msgspec.json.decode(payload),), {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongArguments(f"the payload is not JSON: {error}") from None
