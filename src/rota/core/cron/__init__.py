"""Cron expressions: parse a rule and compute its next fire time.

`parse` reads an expression; `CronExpression.next` counts forward from a moment. The package implements calendars and
clock changes. It reads no clock and keeps no state. An expression that is not plainly valid is refused with a message
that names the field, the value and what is allowed.

The rules:

**Syntax** (`parser`, `field`). Five fields, *minute hour day-of-month month day-of-week*, or six with *second* in
front. A field is a list of ``*``, ``n``, ``n-m``, ``*/s``, ``n-m/s``; months and weekdays have names; Sunday is 0 and
7. ``n/s`` is refused: implementations do not agree on what it means. Also ``@hourly`` and the other aliases, and
``@every <duration>``.

**Days** (`pattern`). When both day fields are restricted either one is enough. A day field that *begins* with ``*``
(also ``*/2`` or ``*,5``) counts as a star, and then both must match.

**Clock changes** (`fire_times`, `clock_changes`). As in Debian's cron there are two kinds of expression.

- *Wall clock*: the minute or the hour field begins with ``*`` (also ``*/5 2 * * *``). It fires whenever the clock on
  the wall shows a matching time: not at all for times that a gap jumps over, twice for times that an overlap repeats.
- *Fixed time*: all others. Each matching time fires once, when the clock first reaches **or passes** it: a time inside
  a gap fires at the first whole minute after the gap (second, if the expression has seconds), a time inside an overlap
  fires the first time only. Several times inside one gap, and a regular one right after it, are one fire time.

A gap or overlap of any length is treated like this, be it thirty minutes or a whole day. Debian's cron does so up to
three hours only, because it cannot distinguish a changed zone from a corrected clock.

**Intervals** (`fire_times.Every`). ``@every 5m`` fires at whole multiples of the interval since 1970-01-01 00:00 UTC.
This needs no memory and no zone, so any number of schedulers agree on it.
"""

from __future__ import annotations

from rota.core.cron.clock_changes import ClockChange, clock_changes
from rota.core.cron.expression import CronExpression
from rota.core.cron.parser import parse
from rota.core.errors import InvalidCron

__all__ = ["ClockChange", "CronExpression", "InvalidCron", "clock_changes", "parse"]
