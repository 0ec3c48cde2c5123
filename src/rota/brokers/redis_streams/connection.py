"""The connection to Redis: every call either returns or raises `BrokerUnavailable`.

While the server is down no caller waits for it: calls fail at once, and only `check` tries to reach it. It counts as up
when it accepts a write: a former primary, or a server that is loading or full, answers a ping and is of no use.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisClusterException, RedisError

from rota.brokers.redis_streams.location import ANSWER_SECONDS, RedisLocation, client_of, pubsub_client_of, sentinels_of
from rota.core.errors import BrokerUnavailable

_log = logging.getLogger("rota.broker")
#: What the driver raises for an unavailable server; a cluster without nodes has an error class outside RedisError.
UNAVAILABLE_ERRORS: Final = (RedisError, RedisClusterException, OSError, TimeoutError)
_SCRIPTS: Final = ("acknowledge", "audit", "capacity", "hand_over", "leave", "rates", "register", "take", "take_over")
_PROBE_SECONDS: Final = 60

#: Called with the name and the seconds of each call.
Observe = Callable[[str, float], None]


class RedisConnection:
    """A client, and whether its server is up."""

    def __init__(self, location: RedisLocation, probe: str, observe: Observe) -> None:
        self._location = location
        self._client = client_of(location)
        self._probe = probe
        self._observe = observe
        self._scripts = {name: self._client.register_script(_script(name)) for name in _SCRIPTS}
        self.is_up = False
        self._was_logged = False
        self._cause = "not connected yet"
        self._calls: set[asyncio.Future[Any]] = set()

    async def run(self, script: str, keys: Sequence[str], *arguments: str | float) -> Any:  # noqa: ANN401 - the script's
        return await self._checked(script, lambda: self._scripts[script](keys=list(keys), args=list(arguments)))

    async def command(self, *words: str | float) -> Any:  # noqa: ANN401 - as the command returns
        return await self._checked(str(words[0]).lower(), lambda: self._client.execute_command(*words))

    async def check(self) -> bool:
        """Try a write; give whether the state changed. Until a write succeeds, other calls fail at once."""
        was_up = self.is_up
        if not was_up and isinstance(self._client, Redis):
            # Idle connections may be to a server that is not the primary any more.
            with suppress(*UNAVAILABLE_ERRORS):
                await self._client.connection_pool.disconnect(inuse_connections=False)
        error, _ = await self._call(
            "set", lambda: self._client.execute_command("SET", self._probe, "1", "EX", _PROBE_SECONDS)
        )
        self.is_up = error is None
        if self.is_up and not was_up:
            _log.info("broker: redis is up; jobs are dispatched through it")
            self._was_logged = False
        return self.is_up != was_up

    def pubsub_client(self) -> Redis:
        return pubsub_client_of(self._location, self._client)

    async def close_pubsub_client(self, client: Redis) -> None:
        """Close a client of `pubsub_client`, unless it is the shared one."""
        if client is not self._client:
            await client.aclose()

    async def close(self) -> None:
        self.is_up = False
        if self._calls:
            await asyncio.wait(self._calls, timeout=ANSWER_SECONDS)
        with suppress(*UNAVAILABLE_ERRORS):
            await self._client.aclose()
        for sentinel in sentinels_of(self._client):
            with suppress(*UNAVAILABLE_ERRORS):
                await sentinel.aclose()

    async def _checked(self, name: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever comes back
        if not self.is_up:
            raise BrokerUnavailable(f"redis is unavailable: {self._cause}")
        error, answer = await self._call(name, send)
        if error is not None:
            raise BrokerUnavailable(f"redis is unavailable: {self._cause}") from error
        return answer

    async def _call(self, name: str, send: Callable[[], Any]) -> tuple[BaseException | None, Any]:
        # In a task of its own, which is never cancelled: the driver may swallow a cancellation on Python 3.11, and the
        # caller would not end. A call ends by itself within seconds.
        call = asyncio.ensure_future(self._timed(name, send))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _timed(self, name: str, send: Callable[[], Any]) -> tuple[BaseException | None, Any]:
        started = time.perf_counter()
        try:
            answer = await send()
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, workers can claim from the store
            self._on_failure(error)
            return error, None
        self._observe(name, time.perf_counter() - started)
        return None, answer

    def _on_failure(self, error: BaseException) -> None:
        self.is_up = False
        self._cause = f"{type(error).__name__}: {error}"
        if not self._was_logged:
            # Once for each outage, not for each call.
            self._was_logged = True
            _log.warning("broker: redis is unavailable; workers claim from the store until it is back: %s", self._cause)


def _script(name: str) -> str:
    return files("rota.brokers.redis_streams").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
