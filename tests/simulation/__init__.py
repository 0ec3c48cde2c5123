"""The deterministic simulation: deployments of workers, schedulers and clients in one thread, decided by one seed.

A seed gives a world (`worlds`). It runs (`scenario`) on an event loop with virtual time (`loop`), over a network that
loses, delays, repeats and cuts off messages (`network`), while hosts crash, stop and have wrong clocks (`hosts`,
`faults`). What happens is recorded (`history`) and checked afterwards by code that imports nothing of Rota (`checker`).
Planted bugs (`mutants`) show that the checker finds violations.

Run it with ``python -m simulation``. Nothing in it depends on real time.
"""

from __future__ import annotations
