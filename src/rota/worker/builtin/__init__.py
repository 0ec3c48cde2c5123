"""Built-in job types: their handlers, and the checks of their payloads at submission.

The HTTP client is imported with the first `http` job: it is a quarter of the code that a worker loads, and most workers
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
from rota.core.webhook import TYPE
from rota.worker.arguments import Call, WrongArguments
from rota.worker.builtin import simple
from rota.worker.builtin.addresses import AddressGuard
from rota.worker.builtin.file import FileOperations, FileSettings, check_file
from rota.worker.handlers import ExecutorName, Handler

if TYPE_CHECKING:
    from rota.worker.builtin.http import Http
    from rota.worker.builtin.webhook import Disable, Find, WebhookSender

__all__ = ["CHECKS", "FileSettings", "builtin_handlers", "load_http", "webhook_handler"]


def load_http() -> type[Http]:
    """Import the handler of `http` jobs with its HTTP client."""
    from rota.worker.builtin.http import Http  # noqa: PLC0415 - loaded late, see above

    return Http


def _check_http(payload: object) -> None:
    from rota.worker.builtin.http import check_http  # noqa: PLC0415 - loaded late, see above

    check_http(payload)


#: By job type: a function that raises `InvalidRequest` for a wrong payload (as decoded from JSON), naming the field.
CHECKS: Final[Mapping[str, Callable[[object], None]]] = MappingProxyType(
    {
        "http": _check_http,
        "sleep": simple.check_sleep,
        "file": check_file,
        "demo": simple.check_anything,
        "echo": simple.check_anything,
        "default": simple.check_anything,
    }
)


def builtin_handlers(
    *, allow_hosts: Iterable[str] = (), files: FileSettings | None = None, timeout: timedelta | None = None
) -> list[Handler]:
    """Return the built-in handlers: `file` only with a root; `http` also to the hosts and networks listed.

    `timeout` is for jobs that have none of their own: a `sleep` of a year would occupy a slot for a year.
    """
    guard = AddressGuard.of(allow_hosts)
    http: Http | None = None

    async def send_http(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        nonlocal http
        if http is None:
            # On a thread: the import takes a while, and other handlers share this loop.
            http = (await asyncio.to_thread(load_http))(guard)
        return await http(payload)

    kinds: list[tuple[str, Callable[..., Any], ExecutorName]] = [
        ("http", send_http, "async"),
        ("sleep", simple.sleep, "async"),
        ("demo", simple.demo, "async"),
        ("echo", simple.echo, "async"),
        ("default", simple.default, "async"),
    ]
    if files is not None:
        kinds.append(("file", FileOperations(files), "thread"))
    return [
        Handler(type_, function, executor, timeout, give_up_on=(InvalidRequest,), decode=_whole)
        for type_, function, executor in kinds
    ]


def webhook_handler(allow_hosts: Iterable[str], find: Find, disable: Disable) -> Handler:
    """Return the handler of webhook deliveries; `find` and `disable` reach the store."""
    sender: WebhookSender | None = None

    async def deliver(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        nonlocal sender
        if sender is None:
            sender = (await asyncio.to_thread(_load_sender))(AddressGuard.of(allow_hosts), find, disable)
        return await sender(payload)

    return Handler(TYPE, deliver, "async", decode=_whole)


def _load_sender() -> type[WebhookSender]:
    from rota.worker.builtin.webhook import WebhookSender  # noqa: PLC0415 - loaded late, see above

    return WebhookSender


def _whole(payload: str) -> Call:
    """Pass the payload as the only argument: these handlers read it themselves."""
    try:
        return (msgspec.json.decode(payload),), {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongArguments(f"the payload is not JSON: {error}") from None
