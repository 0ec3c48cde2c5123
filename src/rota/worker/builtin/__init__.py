"""The job types that are built in: their handlers, and the checks of their payloads for whoever takes submissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from rota.core.errors import InvalidRequest
from rota.worker.builtin import plain
from rota.worker.builtin.addresses import Guard
from rota.worker.builtin.file import Files, check_file
from rota.worker.builtin.http import Http, check_http
from rota.worker.calling import Call, WrongArguments
from rota.worker.handlers import Executor, Handler

__all__ = ["CHECKS", "builtin_handlers"]

#: By type, what refuses a wrong payload (as decoded from JSON) with `InvalidRequest`, naming the field.
CHECKS: Final[Mapping[str, Callable[[object], None]]] = MappingProxyType(
    {
        "http": check_http,
        "sleep": plain.check_sleep,
        "file": check_file,
        "demo": plain.check_anything,
        "echo": plain.check_anything,
        "default": plain.check_anything,
    }
)


def builtin_handlers(*, allow_hosts: Iterable[str] = (), file_root: Path | None = None) -> list[Handler]:
    """Give the built-in handlers: `file` only with a root, and `http` also to hosts and networks that are listed."""
    http = Http(Guard.of(allow_hosts))

    async def ask(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        return await http(payload)

    handlers = [
        _handler("http", ask, "async"),
        _handler("sleep", plain.sleep, "async"),
        _handler("demo", plain.demo, "async"),
        _handler("echo", plain.echo, "async"),
        _handler("default", plain.default, "async"),
    ]
    if file_root is not None:
        handlers.append(_handler("file", Files(file_root), "thread"))
    return handlers


def _handler(type_: str, function: Callable[..., Any], executor: Executor) -> Handler:
    return Handler(type_, function, executor, give_up_on=(InvalidRequest,), decode=_whole)


def _whole(payload: str) -> Call:
    """Give the payload as the one argument: these handlers read it themselves."""
    try:
        return (msgspec.json.decode(payload),), {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongArguments(f"the payload is not JSON: {error}") from None
