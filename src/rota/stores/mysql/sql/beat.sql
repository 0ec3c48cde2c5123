-- Record that a process is alive, as it describes itself. By primary key.
INSERT INTO `member` (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
) VALUES (
    %(boot)s, %(role)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(address)s, %(queues)s, %(types)s, %(slots)s,
    %(busy)s, %(is_draining)s, coalesce(%(started_at)s, %(now)s), %(now)s
)
ON DUPLICATE KEY UPDATE
    role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
    address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
    busy = VALUES(busy), is_draining = VALUES(is_draining), started_at = coalesce(%(started_at)s, started_at),
    seen_at = VALUES(seen_at)
