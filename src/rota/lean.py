"""httpx without its command line.

httpx tries to load the command that it also is, and with it, wherever they happen to be installed, a library for
coloured terminals and one for highlighting source code. They were a fifth of what a process of Rota loads, and none of
them is ever used here. Whoever needs httpx takes it from this module.
"""

from __future__ import annotations

import sys
from typing import Any, cast

_COMMAND = "httpx._main"
_modules = cast("dict[str, Any]", sys.modules)

if _COMMAND in _modules:
    import httpx
else:
    # Python's own way to say that a module is not to be found; httpx is prepared for it.
    _modules[_COMMAND] = None
    try:
        import httpx
    finally:
        # For whoever asks for the command itself.
        del _modules[_COMMAND]

__all__ = ["httpx"]
