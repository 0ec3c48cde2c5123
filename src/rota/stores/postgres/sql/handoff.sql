-- Hand-over of a new job to a claim that waits for one; see handoff.py.

-- name: insert_for_open_claim
-- Store one new plain job that is due at once and may run again. If a worker has left an open claim for such a job,
-- the job is leased to that claim in the same statement: submission and claim are one commit. Claims whose process is
-- gone, or that were answered otherwise, are passed over. Sends a notification, see notify.py. The claim that has
-- waited longest is first, by rota_open_claim_since; no claim waits longer than $13, so older dead rows are not read.
-- Otherwise as insert_one.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
free AS MATERIALIZED (
    SELECT open_claim.claim_id, open_claim.worker, open_claim.boot, open_claim.lease, open_claim.channel
    FROM {schema}rota_open_claim AS open_claim
    WHERE open_claim.since BETWEEN (SELECT now FROM clock) - $13::bigint AND (SELECT now FROM clock)
        AND open_claim.until > (SELECT now FROM clock)
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_claim AS claim WHERE claim.claim_id = open_claim.claim_id OFFSET 0)
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_queue AS queue
            WHERE queue.name = $5::text AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > (SELECT now FROM clock))
            OFFSET 0
        )
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_limit AS limits
            WHERE limits.name = ANY(ARRAY['queue:' || $5::text, 'task:' || $4::text])
            OFFSET 0
        )
        -- The lock last, and only for claims of this lane: CASE fixes the order, whatever the planner prefers.
        AND CASE
            WHEN $15::text = ANY (open_claim.lanes) THEN NOT pg_try_advisory_xact_lock_shared(open_claim.sign)
            ELSE false
        END
    ORDER BY open_claim.since
    LIMIT 1
    FOR UPDATE OF open_claim SKIP LOCKED
),
stored AS (
    INSERT INTO {schema}rota_job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
        attempts, worker, boot, started_at, lease_until
    )
    SELECT
        $3::bigint, $4::text, $5::text, $6::smallint, CASE WHEN free.boot IS NULL THEN 'pending' ELSE 'running' END,
        clock.now - $6::smallint * $2::bigint, clock.now, clock.now, clock.now, $7::bigint, $8::text, $9::text,
        (free.boot IS NOT NULL)::integer, (free.boot IS NOT NULL)::integer, free.worker, free.boot,
        CASE WHEN free.boot IS NOT NULL THEN clock.now END, clock.now + free.lease
    FROM clock LEFT JOIN free ON true
    WHERE $3::bigint BETWEEN {first}::bigint AND {last}::bigint
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_queue AS queue WHERE name = $5::text AND max_depth IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_job WHERE id = $3::bigint)
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_job_done WHERE id = $3::bigint AND id BETWEEN {first}::bigint AND {last}::bigint
        )
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
taken AS (
    DELETE FROM {schema}rota_open_claim AS open_claim WHERE claim_id = (SELECT free.claim_id FROM free, stored)
),
remembered AS (
    INSERT INTO {schema}rota_claim AS claim (claim_id, at, leases)
    SELECT free.claim_id, clock.now, json_build_array(json_build_array(stored.id, 1)) FROM clock, free, stored
)
SELECT
    free.claim_id, clock.now,
    CASE
        WHEN free.boot IS NULL THEN pg_notify($10::text, $11::text)
        ELSE pg_notify(free.channel, concat('[', to_json(free.claim_id), ',', clock.now, ',', $12::text, ']'))
    END::text,
    CASE WHEN free.boot IS NOT NULL THEN pg_notify($14::text, '') END::text
FROM clock CROSS JOIN stored LEFT JOIN free ON true

-- name: delete_open_claim
-- Delete an open claim, if it is still there. Waits for a submitter that is just answering it. By primary key.
DELETE FROM {schema}rota_open_claim WHERE claim_id = $1::text
