-- Give queued jobs by id. Served by job_queued, which holds nothing else; a broker's windows keep them few.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
line AS MATERIALIZED (SELECT id, queue, type, priority, updated_at FROM job WHERE state = 'queued' AND queue >= '')
SELECT line.id, line.queue, line.type, line.priority
FROM line, clock
WHERE line.id > $2::bigint AND line.updated_at <= clock.now - $3::bigint
ORDER BY line.id
LIMIT $4::bigint
