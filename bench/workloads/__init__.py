"""The workloads: each measures one thing on any system, and has the targets for Rota."""
