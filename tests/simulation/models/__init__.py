"""Small models of the worker, the scheduler and the clients, beside the real loops.

Each does what its real counterpart guarantees, through the same port and with the same decisions of `rota.core`. An
`Environment` is all that they know of the simulation: a host, a store, the history, random numbers.
"""

from __future__ import annotations
