"""What we need from outside (store, broker, coordinator), and our two faces (WorkSource, Control).

Protocols only. Each sentence of a docstring that says what must hold is a test in the conformance suite.
"""

from __future__ import annotations
