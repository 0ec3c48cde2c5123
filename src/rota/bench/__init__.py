"""`rota bench`: loads a deployment, measures it, and says what limits it.

In the order of a run: `plan` (what to do), `targets` with `http_target` and `store_target` (what is loaded), `load`
(the callers), `completion` (waiting for the workers), `percentiles` (latencies), `limits` (what limits the deployment:
a pure function of the measurements), `report` (for people and programs); `run` calls them. The user's own deployment is
measured, so nothing is set up or tuned for it: jobs are submitted as by any other client.
"""
