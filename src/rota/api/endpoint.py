"""From an answer to ASGI: sending it."""

from __future__ import annotations

import asyncio

from rota.api.calls import Answer, AsgiScope, Call, Send, Stream, refused
from rota.api.errors import Refusal, refusal_of
from rota.api.receiving import CYCLE
from rota.api.replying import ALWAYS, reply


async def deliver(answer: Answer | Stream, call: Call, send: Send) -> None:
    """Send an answer."""
    if isinstance(answer, Stream):
        await _stream(answer, call, send)
        return
    await respond(answer, call.scope, send)


async def respond(answer: Answer, scope: AsgiScope, send: Send) -> None:
    """Send an answer that is ready."""
    # Taken out: it holds the scope, and a ring for each request would be left to the collector.
    cycle = scope.pop(CYCLE, None)
    if cycle is not None and reply(cycle, answer):
        return
    headers = [*ALWAYS, (b"content-length", b"%d" % len(answer.body)), *answer.headers]
    if answer.media:
        headers.append((b"content-type", answer.media.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})


async def _stream(answer: Stream, call: Call, send: Send) -> None:
    """Send a stream. Its first chunk is made before anything is sent, so that a refusal can still be one."""
    call.scope.pop(CYCLE, None)
    try:
        call.context.streams.enter(call.caller)
    except Refusal as refusal:
        await respond(refused(refusal), call.scope, send)
        return
    try:
        is_asked_for = call.scope["method"] != "HEAD"
        try:
            first = await anext(answer.chunks, None) if is_asked_for else None
        except Exception as error:  # noqa: BLE001 - every error has an answer
            await respond(refused(refusal_of(error)), call.scope, send)
            return
        headers = [*ALWAYS, (b"content-type", answer.media.encode()), *answer.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if first is not None:
            await send({"type": "http.response.body", "body": first, "more_body": True})
            await _pump(answer, call, send)
        await send({"type": "http.response.body", "body": b""})
    finally:
        call.context.streams.leave(call.caller)


async def _pump(answer: Stream, call: Call, send: Send) -> None:
    """Send chunk after chunk until there are no more, or nobody is there to take them."""
    gone = asyncio.ensure_future(call.gone())
    try:
        while True:
            chunk = asyncio.ensure_future(anext(answer.chunks, None))
            await asyncio.wait((chunk, gone), return_when=asyncio.FIRST_COMPLETED)
            if not chunk.done():
                chunk.cancel()
                await asyncio.wait((chunk,))
                return
            data = chunk.result()
            if data is None:
                return
            await send({"type": "http.response.body", "body": data, "more_body": True})
    except Exception as error:  # noqa: BLE001 - an error of any kind ends the stream and is logged
        # Too late for a refusal: the stream ends, and whoever follows it comes back.
        refusal_of(error)
    finally:
        gone.cancel()
        await answer.chunks.aclose()
