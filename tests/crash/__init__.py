"""Crash consistency of the SQLite store: what it acknowledged is durable, whatever fails.

A load (`workload`) drives a store and records its requests and the store's answers (`promises`). Then the process is
killed (`kill`, with `writer` and `child_processes`), the power is cut (`power_cut`, with `simulated_disk` and
`recorder`), or the disk fills up or fails (`failing_disk`). Afterwards `verification`, which uses none of Rota's code,
reads the file and compares it with the promises. Tests check the verification itself (`test_verification`), the
simulated disk (`test_simulated_disk`), and that `test_power_cut` finds lost commits with a weaker `synchronous`.

Run more of it with ``python -m crash.kill --kills 2000`` and ``python -m crash.power_cut --cuts 20000``, from `tests`.
"""

from __future__ import annotations
