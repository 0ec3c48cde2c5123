"""Valid HTTP requests as bytes, and mutations of them. A case depends on its seed and number only."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Final

_HOST: Final = "Host: 127.0.0.1\r\n"
_ID: Final = "0000000000001"


def _post(path: str, form: object, *, extra: str = "") -> bytes:
    body = json.dumps(form).encode()
    head = (
        f"POST {path} HTTP/1.1\r\n{_HOST}Content-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _get(path: str, *, method: str = "GET", extra: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\n{_HOST}{extra}\r\n".encode()


def _chunked(path: str, form: object, extension: str = "") -> bytes:
    body = json.dumps(form).encode()
    head = f"POST {path} HTTP/1.1\r\n{_HOST}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    middle = len(body) // 2
    parts = (body[:middle], body[middle:])
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(one), extension.encode(), one) for one in parts)
    return head.encode() + chunks + b"0\r\n\r\n"


_JOB: Final = {"type": "mail", "payload": {"to": "ada"}, "priority": 5, "tags": ["a"], "idempotency_key": "k"}
_CLAIM: Final = {"worker_id": "ada", "boot_id": "boot", "queues": ["default"], "max": 3, "wait": 0}
CORPUS: Final = (
    _post("/v1/jobs", _JOB),
    _post("/jobs", {"type": "mail", "due_at": "2030-01-01T00:00:00Z"}, extra='Idempotency-Key: "k"\r\n'),
    _post("/tasks", {"type": "mail", "cron": "*/5 * * * *"}),
    _post("/v1/jobs:batch", {"jobs": [_JOB, {"type": "other"}]}),
    _post("/v1/leases:claim", _CLAIM),
    _post("/v1/leases:renew", {"leases": [{"id": _ID, "fence": 1}], "worker_id": "ada", "boot_id": "boot"}),
    _post("/v1/leases:watch", {"worker_id": "ada", "wait": 0.01}),
    _post("/v1/leases:settle", {"reports": [{"id": _ID, "fence": 1, "outcome": "succeeded"}]}),
    _post("/v1/schedules", {"name": "s", "cron": "@every 1h", "job": {"type": "mail"}}),
    _post(f"/v1/jobs/{_ID}/cancel", {}),
    _post("/v1/jobs", _JOB, extra="Expect: 100-continue\r\nConnection: close\r\n"),
    _chunked("/v1/jobs", _JOB),
    _chunked("/v1/jobs", _JOB, ";name=value"),
    _get("/v1/jobs?status=pending&limit=10&type=mail"),
    _get(f"/v1/jobs/{_ID}"),
    _get("/v1/events/stream", method="HEAD", extra="Last-Event-ID: 0123abcd-5\r\n"),
    _get("/metrics", extra="Accept: text/plain\r\n"),
    _get("/stats", extra="Authorization: Bearer x\r\nOrigin: http://127.0.0.1\r\n"),
    _get("/livez", extra="Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    _get("/openapi.json", extra="Accept-Encoding: gzip\r\n"),
    _get("/livez") * 3 + _post("/v1/jobs", _JOB),
)
#: What parsers stumble over.
_PIECES: Final = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b"\xff", b" ", b"\t", b":", b"0\r\n", b"0\r\n\r\n",
    b"0\r\nX: y\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"ffffffffffffffff\r\n", b"5;a=b\r\n", b"Host: a\r\n", b"Host: \r\n", b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/2.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"CONNECT a:1 HTTP/1.1\r\n", b"..", b"%00",
    b"%2e%2e/", b"?limit=99999999999", b"{", b"[", b'"', b"\\u0000", b"\\ud800", b"1e400", b"NaN", b"-", b"9" * 30,
    b"\xf0\x9f\x98\x80",
)  # fmt: skip
_MOST_BYTES: Final = 400_000


def case_of(seed: int, number: int) -> list[bytes]:
    """Return the parts that are sent one after the other on one connection."""
    rng = Random(f"{seed}/{number}")
    data = rng.choice(CORPUS)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8))):
        data = _mutated(rng, data)[:_MOST_BYTES]
    if rng.random() < 0.2:
        data += rng.choice(CORPUS)
    if rng.random() < 0.4:
        # So that a mutated body reaches its route.
        head, blank, body = data.partition(b"\r\n\r\n")
        data = re.sub(rb"Content-Length: [^\r]*", b"Content-Length: %d" % len(body), head) + blank + body
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 2, 6))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]


def _mutated(rng: Random, data: bytes) -> bytes:
    begin, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    end = min(end, begin + 200)
    match rng.randrange(9):
        case 0:
            changed = bytearray(data)
            if changed:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)
        case 1:
            return data[:begin] + data[end:]
        case 2:
            return data[:end] + data[begin:end] * rng.choice((1, 2, 10, 1_000)) + data[end:]
        case 3 | 4:
            return data[:begin] + rng.choice(_PIECES) + data[begin:]
        case 5:
            return data[:begin] + rng.choice(_PIECES) * rng.choice((10, 1_000, 20_000)) + data[begin:]
        case 6:
            return data[:begin]
        case 7:
            other = rng.choice(CORPUS)
            return data[:begin] + other[rng.randrange(len(other)) :]
        case _:
            lines = data.split(b"\r\n")
            line = rng.randrange(len(lines))
            return b"\r\n".join([*lines[:line], rng.choice(lines), *lines[line:]])
