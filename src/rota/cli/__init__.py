"""The command line: a client of the HTTP API, and the way to start every process.

Nothing heavy is imported before a command needs it: `rota --help` must be fast.
"""

from __future__ import annotations
