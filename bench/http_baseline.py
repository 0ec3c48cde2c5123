"""Servers that answer submissions without a store: what HTTP alone costs.

`python -m bench.http_baseline bare PORT`: uvicorn as we run it, with a handler that decodes the job and answers.
`python -m bench.http_baseline forgetful PORT`: our whole API, on a store that forgets what it is given.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from uvicorn import Config, Server

from rota._loop import new_loop
from rota.api import create_app
from rota.api.http import AsgiScope, Receive, Send
from rota.api.server.serve import serve
from rota.core.ids import to_text
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.store import Inserted, Receipt
from rota.runtime.link import link_of
from rota.stores.sqlite import SqliteStore


class Submission(msgspec.Struct):
    type: str
    payload: object = None


async def bare(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """Answer as an API without a store would: read the job, name it, say where it is."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    if scope["method"] == "POST":
        submission = msgspec.json.decode(body, type=Submission)
        answer = msgspec.json.encode({"id": to_text(1), "type": submission.type, "state": "pending"})
    else:
        answer = b"{}"
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


class Forgetful(SqliteStore):
    """A store that takes everything and keeps nothing."""

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        del bound, entry, now
        moment = datetime.now(UTC)
        return [Inserted(job.id, Receipt.CREATED, State.PENDING, moment) for job in jobs]


async def forgetful(port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        link = link_of(await Forgetful.open(Path(folder) / "rota.db"))
        assert link.engine is not None
        await serve(create_app(link.engine), port=port)


def main() -> None:
    kind, port = sys.argv[1], int(sys.argv[2])
    config = Config(bare, port=port, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(Server(config).serve() if kind == "bare" else forgetful(port))


if __name__ == "__main__":
    main()
