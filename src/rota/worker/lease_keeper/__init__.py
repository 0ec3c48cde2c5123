"""The lease keeper: a process beside a worker that renews its leases, and hands its jobs back when it dies.

This file imports nothing, so that the process starts with as little as possible (see start.py).
"""
