-- Give the time, and whether anything may be past its own: finished jobs by state, claims, keys, history. It may have to
-- stay all the same. Holds nothing; one look at the left edge of job_done_finished, claim_at, idempotency_expiry and
-- occurrence_at each. Members are few, and of the ledger the oldest entry that may go is looked at.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
SELECT
    now,
    EXISTS (
        SELECT 1
        FROM (VALUES ('completed', $2::bigint), ('cancelled', $3::bigint), ('dead', $4::bigint)) AS kept (state, span),
            LATERAL (
                SELECT finished_at FROM job_done WHERE job_done.state = kept.state ORDER BY finished_at LIMIT 1
            ) AS oldest
        WHERE oldest.finished_at <= now - kept.span
    )
    OR EXISTS (SELECT 1 FROM claim WHERE at <= now - $5::bigint)
    OR EXISTS (SELECT 1 FROM idempotency WHERE expires_at <= now)
    OR EXISTS (SELECT 1 FROM occurrence WHERE at <= now - $6::bigint AND fire_time <= now - $6::bigint)
    OR EXISTS (SELECT 1 FROM member WHERE seen_at <= now - $6::bigint)
    OR coalesce((
        SELECT at FROM ledger WHERE number < (SELECT max(number) FROM ledger) ORDER BY number LIMIT 1
    ) <= now - $6::bigint, false)
FROM clock
