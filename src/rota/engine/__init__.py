"""The engine: verbs over a store, made of the core's decisions and the store's writes.

The engine decides nothing that the core can decide, and keeps nothing that the store can keep. Any number of engines
work on one store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota._lazy import lazy_names

if TYPE_CHECKING:
    from rota.engine.engine import Engine

__all__ = ["Engine"]

# A program that only defines tasks needs ids, and no engine.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"engine": ["Engine"]})
