"""The version of this release, for modules that must not import the public package."""

from __future__ import annotations

__version__ = "0.1.0"
