"""What each command does. One module for a family; loaded only when one of its commands is run."""

from __future__ import annotations
