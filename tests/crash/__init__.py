"""Crash consistency of the SQLite store: what it acknowledged is there, whatever happens to it.

A load (`workload`) drives a store and writes down what it asks for and what it is told (`promises`). Then something
bad happens: the process is killed (`kill`, with `writer` and `nursery`), the power goes (`power_cut`, with `platter`
and `recorder`), the disk fills up or fails (`trouble`). Afterwards somebody who knows nothing of Rota's code reads the
file and compares it with the promises (`verdict`). That this judge is awake, and that the disks are as bad as we claim,
is tested too: `test_verdict`, `test_platter`, and the runs with `synchronous` turned down in `test_power_cut`.

Run more of it with ``python -m crash.kill --kills 2000`` and ``python -m crash.power_cut --cuts 20000``, from `tests`.
"""

from __future__ import annotations
