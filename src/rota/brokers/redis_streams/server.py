"""The server, as far as it is there: every call either answers or says that the broker is away.

While it is away nobody waits for it: calls fail at once, and only `heal` knocks at its door. It is healed when it takes
a write again; a replica that was a primary, or one that is loading or full, answers a ping and is of no use.
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

from rota.brokers.redis_streams.location import ANSWER_SECONDS, Location, client_of, guards_of, hearing_client_of
from rota.core.errors import BrokerUnavailable

_log = logging.getLogger("rota.broker")
#: What a server that is not there makes the driver raise; a cluster without nodes has an error of a line of its own.
AWAY: Final = (RedisError, RedisClusterException, OSError, TimeoutError)
_SCRIPTS: Final = ("audit", "hand_over", "hello", "leave", "let_go", "room", "steal", "take")
_PROBE_SECONDS: Final = 60

#: Told how long which call took.
Observe = Callable[[str, float], None]


class Server:
    """A client, and whether anybody answers it."""

    def __init__(self, location: Location, probe: str, observe: Observe) -> None:
        self._location = location
        self._client = client_of(location)
        self._probe = probe
        self._observe = observe
        self._scripts = {name: self._client.register_script(_text(name)) for name in _SCRIPTS}
        self.is_up = False
        self._was_told = False
        self._why = "it was not asked yet"
        self._calls: set[asyncio.Future[Any]] = set()

    async def run(self, script: str, keys: Sequence[str], *arguments: str | float) -> Any:  # noqa: ANN401 - the script's
        """Run a script of ours."""
        return await self._ask(script, lambda: self._scripts[script](keys=list(keys), args=list(arguments)))

    async def command(self, *words: str | float) -> Any:  # noqa: ANN401 - whatever the command gives
        """Run a single command."""
        return await self._ask(str(words[0]).lower(), lambda: self._client.execute_command(*words))

    async def heal(self) -> bool:
        """See whether the server takes writes; say whether that is news. Until it does, nobody else is sent to it."""
        was_up = self.is_up
        if not was_up and isinstance(self._client, Redis):
            # What was connected may be connected to somebody who is no longer in charge.
            with suppress(*AWAY):
                await self._client.connection_pool.disconnect(inuse_connections=False)
        error, _ = await self._call(
            "set", lambda: self._client.execute_command("SET", self._probe, "1", "EX", _PROBE_SECONDS)
        )
        self.is_up = error is None
        if self.is_up and not was_up:
            _log.info("broker: redis answers; it carries jobs to workers")
            self._was_told = False
        return self.is_up != was_up

    def hearing(self) -> Redis:
        """Give a client to listen with."""
        return hearing_client_of(self._location, self._client)

    async def heard(self, client: Redis) -> None:
        """Let go of a client that was listened with, if it was made for that."""
        if client is not self._client:
            await client.aclose()

    async def close(self) -> None:
        """Let go of all connections."""
        self.is_up = False
        if self._calls:
            await asyncio.wait(self._calls, timeout=ANSWER_SECONDS)
        with suppress(*AWAY):
            await self._client.aclose()
        for guard in guards_of(self._client):
            with suppress(*AWAY):
                await guard.aclose()

    async def _ask(self, name: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever comes back
        if not self.is_up:
            raise BrokerUnavailable(f"redis is away: {self._why}")
        error, answer = await self._call(name, send)
        if error is not None:
            raise BrokerUnavailable(f"redis is away: {self._why}") from error
        return answer

    async def _call(self, name: str, send: Callable[[], Any]) -> tuple[BaseException | None, Any]:
        # In a task of its own, which nobody breaks off: the driver may swallow a cancellation on Python 3.11, and then
        # whoever was cancelled would go on for ever. A call ends by itself within seconds.
        call = asyncio.ensure_future(self._sent(name, send))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _sent(self, name: str, send: Callable[[], Any]) -> tuple[BaseException | None, Any]:
        begun = time.perf_counter()
        try:
            answer = await send()
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, jobs are to be had from the store
            self._fall(error)
            return error, None
        self._observe(name, time.perf_counter() - begun)
        return None, answer

    def _fall(self, error: BaseException) -> None:
        self.is_up = False
        self._why = f"{type(error).__name__}: {error}"
        if not self._was_told:
            # Once for each time that it goes, not once for each call.
            self._was_told = True
            _log.warning("broker: redis is away; jobs are taken from the store itself until it is back: %s", self._why)


def _text(name: str) -> str:
    return files("rota.brokers.redis_streams").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
