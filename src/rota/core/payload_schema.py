"""Payload schemas: the JSON Schema of the payloads of each task type, which workers register."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rota.core.value import value

#: How long the text of a schema may be; a worker registers none that is longer.
LONGEST_SCHEMA: Final = 16_000
#: How many schemas one registration may have.
MOST_SCHEMAS: Final = 200


@value
class PayloadSchema:
    """The JSON Schema of a task type's payloads as text, and when a worker last registered it."""

    body: str
    at: datetime
