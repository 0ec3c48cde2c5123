"""The history of counts, for charts and percentiles. Reads the buckets of the history, never jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from rota.api.errors import invalid
from rota.api.http import Request, Response, json_response
from rota.api.router import Route
from rota.core.access import Action
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.history import BOUNDS, Bucket, BucketLength, HistoryQuery, Tally
from rota.core.time import from_micros, to_micros
from rota.wire.history import HistoryBucket, HistoryForm, percentiles_of, tally_fields, tally_form

#: How many buckets an answer has at most; of each queue or type separately fewer.
MOST_BUCKETS: Final = 1_500
MOST_BUCKETS_EACH: Final = 400
#: A step that is not given is the least that gives no more buckets than this.
_USUAL_BUCKETS: Final = 180
_STEPS_SECONDS: Final = (60, 300, 900, 3_600, 6 * 3_600, 86_400)
_LONGEST: Final = BucketLength.HOUR.kept
_SPAN: Final = "a duration such as 1h or 7d, or a time in RFC 3339"


class HistoryFilter(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which buckets: since when (a duration before now, or a time), how long each is, and by what they are split."""

    since: Annotated[str, Meta(min_length=1, max_length=40)] = "1h"
    step: Annotated[str, Meta(min_length=1, max_length=40)] | None = None
    by: Literal["none", "queue", "type"] = "none"


async def history(request: Request) -> Response:
    """Return counts by time; the counts of the last ten seconds may be missing."""
    filters, now = request.query(HistoryFilter), request.engine.clock()
    since = _since(filters.since, now)
    step = _step(filters, now - since, now)
    length = BucketLength.HOUR if step % BucketLength.HOUR == 0 else BucketLength.MINUTE
    first = _start(since, step)
    # This host's clock may be behind the store's: a bucket that has just begun belongs to the answer.
    query = HistoryQuery(length, first, now + timedelta(seconds=step), by_lane=filters.by != "none")
    buckets = await request.engine.store.history(query)
    return json_response(_form(filters.by, (first, now), step, buckets))


def _form(by: str, span: tuple[datetime, datetime], step: int, buckets: Sequence[Bucket]) -> HistoryForm:
    merged: dict[tuple[datetime, str | None], Tally] = {}
    total = Tally()
    for bucket in buckets:
        key = None if by == "none" else getattr(bucket.lane, by)
        merged.setdefault((_start(bucket.at, step), key), Tally()).add(bucket.tally)
        total.add(bucket.tally)
    forms = [HistoryBucket(at=at, key=key, **tally_fields(tally)) for (at, key), tally in sorted(merged.items())]  # type: ignore[arg-type] # the names are the fields'
    return HistoryForm(
        since=span[0],
        until=span[1],
        step=float(step),
        by=by,
        bounds=list(BOUNDS),
        buckets=forms,
        total=tally_form(total),
        percentiles=percentiles_of(total),
    )


def _start(moment: datetime, step: int) -> datetime:
    micros = to_micros(moment)
    return from_micros(micros - micros % (step * 1_000_000))


def _since(text: str, now: datetime) -> datetime:
    try:
        since = datetime.fromisoformat(text) if "T" in text else now - parse_duration(text, field="since")
    except (ValueError, InvalidRequest, OverflowError):
        raise invalid([("since", f"{text!r} is not {_SPAN}")]) from None
    if since.tzinfo is None:
        raise invalid([("since", f"{text!r} has no zone; write {text}Z")])
    if not timedelta(0) < now - since <= _LONGEST:
        raise invalid([("since", f"{text!r} must lie in the last {_LONGEST.days} days")])
    return since


def _step(filters: HistoryFilter, span: timedelta, now: datetime) -> int:
    """Return the length of the buckets in seconds; refuse one that was not kept or makes too many buckets."""
    is_old = span > BucketLength.MINUTE.kept
    if filters.step is None:
        usual = [one for one in _STEPS_SECONDS if span.total_seconds() / one <= _USUAL_BUCKETS]
        return max(usual[0] if usual else _STEPS_SECONDS[-1], BucketLength.HOUR if is_old else BucketLength.MINUTE)
    try:
        seconds = parse_duration(filters.step, field="step").total_seconds()
    except InvalidRequest:
        raise invalid([("step", f"{filters.step!r} is not a duration; write 1m, 5m, 1h or 1d")]) from None
    if not seconds or seconds % 60 or (seconds > BucketLength.HOUR and seconds % BucketLength.HOUR):
        raise invalid([("step", f"{filters.step!r} must be whole minutes, or whole hours above one; write 1m or 1h")])
    if is_old and seconds % BucketLength.HOUR:
        raise invalid([("step", f"{filters.step!r}: minutes are kept for 48 h; write 1h, or a later 'since'")])
    most = MOST_BUCKETS if filters.by == "none" else MOST_BUCKETS_EACH
    if (now - _start(now - span, int(seconds))).total_seconds() / seconds > most:
        raise invalid([("step", f"{filters.step!r} makes more than {most} buckets; write a longer step")])
    return int(seconds)


ROUTES = (
    Route(
        method="GET",
        path="/v1/stats/history",
        action=Action.SYSTEM_READ,
        handler=history,
        summary="Counts of jobs by time, with percentiles of wait, duration and lateness",
        tag="system",
        query=HistoryFilter,
        responses={200: HistoryForm},
    ),
)
