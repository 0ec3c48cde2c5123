"""Where the truth is kept: one adapter per database, side by side, none knowing of the others."""

from __future__ import annotations
