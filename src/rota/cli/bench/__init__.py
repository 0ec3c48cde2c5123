"""`rota bench`: loads a deployment, measures what comes of it, and says what limits it.

The rooms, in the order in which a run passes them: `plan` (what was asked for), `targets` with `over_http` and
`on_store` (who is loaded), `load` (the callers), `running` (watching the workers), `spread` (latencies), `verdict`
(what limits it: a pure function of what was measured), `report` (what a person reads); `course` leads through them.
What is measured is the user's own deployment, so nothing is set up or tuned for it: jobs are submitted as anyone would.
"""
