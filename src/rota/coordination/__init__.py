"""Coordination: who leads, who is alive, named locks, and the shared configuration. One port, three adapters.

`local` serves one process, `database` all that share a store, `etcd` all that share a cluster of etcd.
"""
