"""Ceilings: what a bare driver reaches with the same rows, on the same machine in the same run.

C1: durable commits of one row, one after the other on one connection. C2: rows per second inserted in batches of 500 on
one connection into a bare table of the same columns. `handover` is the same for a single job: a floor under its time.
"""
