-- One job per request, as wrk sends it; what was seen comes out as one line of JSON.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"type": "mail", "payload": {"to": "user@example.com", "subject": "Your report", "body": "'
  .. string.rep("x", 130) .. '"}}'

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "errors": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
