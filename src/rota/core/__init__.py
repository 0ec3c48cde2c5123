"""The core: values and pure decisions about jobs and schedules.

Standard library only; no clock, no random numbers, no awaits. Callers pass the time and random numbers in.
"""

from __future__ import annotations
