"""Stores: one adapter per database; the modules here are shared by all of them."""

from __future__ import annotations
