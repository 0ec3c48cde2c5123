"""httpx without its command line.

`import httpx` also loads its command with rich, pygments and click, if they are installed: a fifth of what a process of
Rota loads, and never used here. Import httpx from this module instead.
"""

from __future__ import annotations

import sys
from typing import Any, cast

_COMMAND = "httpx._main"
_modules = cast("dict[str, Any]", sys.modules)

if _COMMAND in _modules:
    import httpx
else:
    # None in `sys.modules` makes the import fail, and httpx handles that.
    _modules[_COMMAND] = None
    try:
        import httpx
    finally:
        # For a program that imports the command itself.
        del _modules[_COMMAND]

__all__ = ["httpx"]
