"""The workloads: each measures one thing on any system, and knows what Rota must reach in it."""
