"""Limits of single tokens and of namespaces: requests and streams a second, and bytes of requests under way.

Each API process counts by itself. A rate allows as many at once as it allows in a second. What is beyond a limit is
answered 429 with the seconds after which to try again, and costs no more than that answer.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from rota.api.errors import HttpError
from rota.api.settings import ApiKey, Limits

_MOST_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits, and for whom they are counted."""

    id: str
    #: The owner in messages.
    owner: str
    #: The code of a refusal.
    code: str
    limits: Mapping[str, int]

    @classmethod
    def of_key(cls, key: ApiKey) -> Quota | None:
        """Return the quota of a token; None without limits."""
        if key.limits is None:
            return None
        return cls(key.token_id, f"the token {key.name!r}", "token_limit", key.limits.given)


class TokenLimiter:
    """Counts the requests of tokens and namespaces that have limits."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._clock = clock
        #: By owner and limit: how many may still come, and when that was counted.
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._bytes: Counter[str] = Counter()

    def begin(self, quota: Quota, headers: Mapping[bytes, bytes]) -> int:
        """Count a request, or refuse it; give the bytes to pass to `end` when it is answered."""
        self._take(quota, "requests_per_second")
        most = quota.limits.get("bytes_in_flight")
        # A body of unknown length counts as the largest one.
        unknown = self._limits.body_bytes if b"transfer-encoding" in headers else 0
        size = int(headers.get(b"content-length", unknown))
        if most is None or not size:
            return 0
        if self._bytes[quota.id] + size > most:
            raise _refusal(quota, "bytes_in_flight", most, 1)
        self._bytes[quota.id] += size
        return size

    def end(self, quota: Quota, size: int) -> None:
        """Subtract the bytes of an answered request."""
        if size:
            self._bytes[quota.id] -= size
            if not self._bytes[quota.id]:
                del self._bytes[quota.id]

    def begin_stream(self, quota: Quota) -> None:
        """Count a stream, or refuse it."""
        self._take(quota, "streams_per_second")

    def _take(self, quota: Quota, name: str) -> None:
        rate = quota.limits.get(name)
        if rate is None:
            return
        now = self._clock()
        left, counted_at = self._left.pop((quota.id, name), (float(rate), now))
        left = min(float(rate), left + (now - counted_at) * rate)
        allowed = left >= 1
        self._left[quota.id, name] = (left - allowed, now)
        if len(self._left) > _MOST_ENTRIES:
            self._left.popitem(last=False)
        if not allowed:
            raise _refusal(quota, name, rate, math.ceil((1 - left) / rate))


def _refusal(quota: Quota, name: str, limit: int, seconds: int) -> HttpError:
    return HttpError(
        429,
        quota.code,
        f"{quota.owner} is limited to {limit} {name.replace('_', ' ')}",
        fix=f"wait {seconds} s, or use a token with a higher limit"
        if quota.code == "token_limit"
        else f"wait {seconds} s, or raise the limit (rota namespaces set-limits)",
        headers={"Retry-After": str(seconds)},
    )
