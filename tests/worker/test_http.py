"""The built-in type `http`: addresses that it may reach, and results of responses."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Any

import pytest

from rota.core.ids import to_text
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.worker.builtin import builtin_handlers
from rota.worker.builtin.addresses import AddressGuard, Forbidden
from rota.worker.builtin.http import retry_after
from worker.environment import WorkerEnvironment

DENIED = [
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0.0.0.0",  # noqa: S104 - not to bind to
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "169.254.169.254",
    "169.254.0.1",
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:100.100.100.200",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "::7f00:1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::127.0.0.1",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2001:10::1",
    "2001:20::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2002:c0a8:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
ALLOWED = (
    "1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 100.128.0.1 2606:4700:4700::1111 2a00:1450:4001:81b::200e ::ffff:1.1.1.1"
)


def test_the_table_is_long_enough() -> None:
    assert len(set(DENIED)) >= 60


@pytest.mark.parametrize("host", DENIED)
async def test_an_address_that_is_not_public_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises((Forbidden, ConnectionError)) as refusal:
        await AddressGuard().resolve(host, 80)
    # What this host cannot even resolve is refused as well; the usual spellings must be refused for what they are.
    assert refusal.type is Forbidden or "cannot be resolved" in str(refusal.value)


@pytest.mark.parametrize("host", [host for host in DENIED if ":" in host])
def test_no_form_of_ipv6_is_permitted_that_is_not_public(host: str) -> None:
    assert not AddressGuard().permits(ip_address(host))


@pytest.mark.parametrize("host", ALLOWED.split())
async def test_a_public_address_is_allowed(host: str) -> None:
    assert AddressGuard().permits(ip_address(host))


async def test_the_usual_names_of_this_host_are_refused() -> None:
    for name in ("localhost", "LOCALHOST"):
        with pytest.raises(Forbidden):
            await AddressGuard().resolve(name, 80)


async def test_an_allow_list_names_hosts_addresses_and_networks() -> None:
    guard = AddressGuard.of(["LocalHost", "10.1.0.0/16", "fd00::5"])
    assert await guard.resolve("localhost", 80)
    assert guard.permits(ip_address("10.1.2.3"))
    assert guard.permits(ip_address("::ffff:10.1.2.3"))
    assert guard.permits(ip_address("fd00::5"))
    assert not guard.permits(ip_address("10.2.0.1"))
    assert not guard.permits(ip_address("fd00::6"))


async def test_one_bad_address_among_good_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, 1, 6, "", (host, 80)) for host in ("93.184.216.34", "169.254.169.254")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    with pytest.raises(Forbidden, match=r"169\.254\.169\.254"):
        await AddressGuard().resolve("rebinding.example", 80)


class Site:
    """A small HTTP server that records requests and sends configured responses."""

    def __init__(self, answer: Callable[[str, dict[str, str], bytes], bytes]) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self._answer = answer
        self.port = 0

    @asynccontextmanager
    async def open(self, host: str = "127.0.0.1") -> AsyncIterator[Site]:
        server = await asyncio.start_server(self._serve, host, 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append((head[0], headers, body))
        writer.write(self._answer(head[0], headers, body))
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            return


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def ask(env: WorkerEnvironment, payload: dict[str, Any], allow: tuple[str, ...] = ("127.0.0.1",)) -> Any:  # noqa: ANN401
    async with env.worker(*builtin_handlers(allow_hosts=allow)):
        job_id = await env.submit("http", json.dumps(payload), max_attempts=1)
        return await env.until(job_id, lambda job: job.state not in {State.PENDING, State.RUNNING})


async def test_a_request_carries_the_jobs_id_and_its_answer_is_kept(env: WorkerEnvironment) -> None:
    async with Site(lambda *_: answer(201, b'{"ok":true}', content_type="application/json")).open() as site:
        url = f"http://127.0.0.1:{site.port}/path?q=1"
        job = await ask(env, {"url": url, "method": "POST", "body": {"a": 1}, "headers": {"X-Key": "secret"}})
    ((line, headers, body),) = site.asked
    assert line == "POST /path?q=1 HTTP/1.1"
    assert (headers["idempotency-key"], headers["x-key"]) == (to_text(job.id), "secret")
    assert (headers["host"], headers["content-type"]) == (f"127.0.0.1:{site.port}", "application/json")
    assert body == b'{"a":1}'
    result = json.loads(job.result)
    assert (result["status"], result["body"], result["is_cut"]) == (201, '{"ok":true}', False)


async def test_without_leave_nothing_of_this_host_is_reached(env: WorkerEnvironment) -> None:
    async with Site(lambda *_: answer(200)).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"}, allow=())
    assert (job.state, job.reason) == (State.DEAD, Reason.PERMANENT)
    assert "not a public address" in job.error.message
    assert site.asked == []


async def test_a_redirect_is_checked_again(env: WorkerEnvironment) -> None:
    """The first host is allowed by name; where it sends us is not."""
    async with Site(lambda *_: answer(200, b"secret")).open("127.0.0.2") as inner:
        sends = lambda *_: answer(302, location=f"http://127.0.0.2:{inner.port}/")  # noqa: E731
        async with Site(sends).open() as site:
            job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"})
    assert job.reason is Reason.PERMANENT
    assert inner.asked == []


async def test_redirects_are_followed_three_times_and_no_more(env: WorkerEnvironment) -> None:
    def sends(line: str, *_: object) -> bytes:
        number = int(line.split()[1].removeprefix("/"))
        return answer(307, location=f"/{number - 1}") if number else answer(200, b"there")

    async with Site(sends).open() as site:
        near = await ask(env, {"url": f"http://127.0.0.1:{site.port}/3", "method": "PUT", "body": "x"})
        far = await ask(env, {"url": f"http://127.0.0.1:{site.port}/4"})
    assert json.loads(near.result)["body"] == "there"
    assert [(line.split()[0], body) for line, _, body in site.asked[:4]] == [("PUT", b"x")] * 4
    assert (far.reason, far.error.kind) == (Reason.PERMANENT, "GiveUp")


async def test_the_submitters_headers_stay_with_the_first_origin(env: WorkerEnvironment) -> None:
    async with Site(lambda *_: answer(200)).open("127.0.0.2") as other:
        sends = lambda *_: answer(302, location=f"http://127.0.0.2:{other.port}/")  # noqa: E731
        async with Site(sends).open() as site:
            headers = {"Authorization": "Bearer t", "X-Api-Key": "k", "Accept": "text/plain"}
            url = f"http://127.0.0.1:{site.port}/"
            await ask(env, {"url": url, "method": "POST", "body": "b", "headers": headers}, ("127.0.0.1", "127.0.0.2"))
    (_, first, _), (line, second, body) = site.asked[0], other.asked[0]
    assert (first["authorization"], first["x-api-key"]) == ("Bearer t", "k")
    assert "authorization" not in second
    assert "x-api-key" not in second
    assert (line.split()[0], second["accept"], body) == ("GET", "text/plain", b"")


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/", "http://", "file:///etc/passwd", "http://u:p@127.0.0.1/"])
async def test_a_redirect_to_something_else_is_not_followed(env: WorkerEnvironment, target: str) -> None:
    async with Site(lambda *_: answer(302, location=target)).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"})
    assert job.reason is Reason.PERMANENT


@pytest.mark.parametrize(("status", "told"), [(429, "30"), (503, "2")])
async def test_a_server_that_says_when_to_come_back_is_believed(env: WorkerEnvironment, status: int, told: str) -> None:
    async with Site(lambda *_: answer(status, retry_after=told)).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"})
    assert (job.state, job.attempts, job.error) == (State.SCHEDULED, 0, None)
    assert timedelta(0) < job.run_at - job.updated_at <= timedelta(seconds=int(told))


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_another_status_is_a_failure(env: WorkerEnvironment, status: int) -> None:
    async with Site(lambda *_: answer(status, b"sorry")).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"})
    assert job.reason is Reason.EXHAUSTED
    assert f"answered {status}: sorry" in job.error.message


async def test_an_expected_status_is_a_success(env: WorkerEnvironment) -> None:
    async with Site(lambda *_: answer(404)).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/", "expect_status": [404, 410]})
    assert json.loads(job.result)["status"] == 404


async def test_no_more_than_a_megabyte_of_the_body_is_kept(env: WorkerEnvironment) -> None:
    async with Site(lambda *_: answer(200, b"x" * 3_000_000)).open() as site:
        job = await ask(env, {"url": f"http://127.0.0.1:{site.port}/"})
    result = json.loads(job.result)
    assert (len(result["body"]), result["is_cut"]) == (1_000_000, True)


async def test_a_server_that_does_not_answer_is_given_up(env: WorkerEnvironment) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        job = await ask(env, {"url": f"http://127.0.0.1:{port}/", "timeout": 0.2})
    assert job.error.kind == "TimeoutError"
    assert "no answer within 0.2 s" in job.error.message


async def test_a_host_that_cannot_be_reached_or_found_is_a_failure(env: WorkerEnvironment) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        job = await ask(env, {"url": f"http://127.0.0.1:{port}/"})
    assert "cannot be reached" in job.error.message
    job = await ask(env, {"url": "http://name.invalid/"})
    assert "cannot be resolved" in job.error.message


async def test_a_name_is_connected_to_by_the_address_that_was_checked(
    env: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to something else the second time: it is not resolved twice."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the original
        asked.append(host)
        return real("127.0.0.1" if host == "rebinding.example" else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with Site(lambda *_: answer(200)).open() as site:
        job = await ask(env, {"url": f"http://rebinding.example:{site.port}/"}, ("rebinding.example",))
    assert job.state is State.COMPLETED
    assert site.asked[0][1]["host"] == f"rebinding.example:{site.port}"
    assert asked.count("rebinding.example") == 1


async def test_the_name_is_kept_for_tls(env: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handshake fails for want of a certificate, but by then the server has heard the name."""
    names: list[str] = []
    real = socket.getaddrinfo
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    def resolve(host: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the original
        return real("127.0.0.1" if host == "secure.example" else host, *arguments, **named)

    async def ignore(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    server = await asyncio.start_server(ignore, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        job = await ask(env, {"url": f"https://secure.example:{port}/"}, ("secure.example",))
    assert job.state is State.DEAD
    assert names == ["secure.example"]


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("0", 0), ("120", 120), ("999999999999", 3600), ("soon", None), ("-5", None), ("", None), (None, None)],
)
def test_retry_after_is_read_in_seconds(told: str | None, seconds: int | None) -> None:
    assert retry_after(told) == (None if seconds is None else timedelta(seconds=seconds))


def test_retry_after_is_read_as_a_date() -> None:
    soon = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True))
    assert soon is not None
    assert timedelta(seconds=80) < soon <= timedelta(seconds=91)
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == timedelta(0)
