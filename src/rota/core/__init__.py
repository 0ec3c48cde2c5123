"""What a job is and what becomes of it: pure decisions over values.

Standard library only; no clock, no chance, no awaits. Whoever calls brings the time and the dice.
"""

from __future__ import annotations
