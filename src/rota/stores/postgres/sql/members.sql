-- Give the processes on record.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
FROM member
WHERE ($1::text IS NULL OR role = $1::text) AND seen_at >= $2::bigint
ORDER BY name, started_at, boot
