-- Record that a process is alive, as it describes itself. By primary key.
INSERT INTO member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
) VALUES (
    $1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::text, $8::text, $9::text, $10::bigint,
    $11::bigint, $12::boolean, coalesce($13::bigint, $14::bigint), $14::bigint
)
ON CONFLICT (boot) DO UPDATE
SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid, version = excluded.version,
    address = excluded.address, queues = excluded.queues, types = excluded.types, slots = excluded.slots,
    busy = excluded.busy, is_draining = excluded.is_draining,
    started_at = coalesce($13::bigint, member.started_at), seen_at = excluded.seen_at
