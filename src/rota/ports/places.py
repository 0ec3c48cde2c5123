"""Places: where there may be something new. A queue's name is one, and there are two more.

Whoever has written says at which places; whoever waits says at which it listens. A hint, and never the truth.
"""

from __future__ import annotations

from typing import Final

#: In place of a queue, when something was written that has its time: whoever keeps the time may listen.
TIMETABLE: Final = "\0timetable"
#: Listened to by whoever wants to hear of work in every queue there is; told by one who does not know in which it is.
EVERY_QUEUE: Final = "\0every queue"
#: Told by one who knows nothing but that something has changed.
ANYWHERE: Final = frozenset({EVERY_QUEUE, TIMETABLE})
