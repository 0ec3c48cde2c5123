"""Stand-ins for the worker, the scheduler and the clients, beside the real loops.

They are thin on purpose: each does what its real counterpart has promised to do (RELIABILITY.md, section 3a), through
the same port and with the same decisions of `rota.core`, and adds nothing. A `Stage` is all they know of the
simulation, and the real loops need no more: a host, a store, a place to write down what handlers do, rng.
"""

from __future__ import annotations
