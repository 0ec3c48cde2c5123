"""Brokers: how workers are notified of jobs and, with Redis, handed their ids."""

from __future__ import annotations
