"""The command line: a client of the public API, and the way to start every role.

Nothing heavy is imported before a command needs it: `rota --help` must be there at once.
"""

from __future__ import annotations
