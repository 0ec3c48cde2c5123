"""The deterministic simulation: whole worlds of workers, schedulers and clients in one thread, ruled by one seed.

A seed draws a world (`scenario`), the world runs on a loop with virtual time (`loop`) over a network that loses,
delays, repeats and cuts (`network`) while hosts die, stop and forget the hour (`hosts`, `faults`). What happens is
written down (`history`) and judged afterwards by somebody who knows nothing of Rota's code (`checker`). That the judge
is awake is shown by planting bugs (`mutants`).

Run it with ``python -m simulation``; everything here is driven by seeds and nothing by the clock on the wall.
"""

from __future__ import annotations
