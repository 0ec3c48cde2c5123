"""The systems that are measured: Rota on each of its stores, and its peers.

A system lives in processes of its own: one that submits (`host`), and its workers. The harness only talks to them, so
that each may have an environment of its own and none is nearer to the harness than another. Nothing here but
`catalogue`, `remote`, `processes` and the modules of Rota itself may import more than the standard library: the peers'
environments have neither Rota nor the tests.
"""
