-- Give the processes on record.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
FROM `member`
WHERE (%(role)s IS NULL OR role = %(role)s) AND seen_at >= %(since)s
ORDER BY name, started_at, boot
