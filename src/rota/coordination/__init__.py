"""Coordinators: leadership, membership, named locks and the shared configuration. One port, three adapters.

`local` serves one process, `database` the processes that share a store, `etcd` those that share an etcd cluster.
"""
