"""Hand-off: a submitter leases a new job to a waiting claim in the transaction that stores the job.

`claims_file` is a file beside the database with the waiting claims, `wakeup` the socket by which a waiting process is
woken, `claim_handoff` the protocol between the two sides. It saves an idle worker a second commit and a claim.
"""

from __future__ import annotations
